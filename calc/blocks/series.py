"""Time series in, vectors out: a matrix for the values of each patch."""

from __future__ import annotations

from calc.blocks.front_output import FrontOutput
from calc.sizes import Size
from calc.spec import Series
from calc.spec.load import Load
from calc.trace.trace import Trace


def series(t: Trace, spec: Series, vocab_size: Size, d_model: Size, load: Load) -> FrontOutput:
    """Values [batch, length], of a channel each -> [batch * (patches + special), d_model].

    FLOPs 2 * batch * patches * patch * d_model. Patches are laid out anew, values that several share in each of them;
    they need no gradient. Source: transformers 5.23, models/patchtst/modeling_patchtst.py.
    """
    n, ahead = spec.patches, int(spec.special)
    given = t.constant(load.batch * n, spec.patch)
    x = t.linear("patch", given, d_model, bias=True, inside=False)
    table = t.weight("position.weight", n + ahead, d_model, of="positional", trainable=spec.trained_positions)
    positions = t.parameters("position", (table,), n + ahead, d_model, of="positional")
    x = t.add("position_add", x, positions.view(n, d_model), of="positional")
    if spec.special:
        vector = t.weight("special.weight", 1, d_model, of="embedding")
        special = t.parameters("special", (vector,), 1, d_model)
        special = t.add("special_add", special, positions.view(1, d_model), of="positional")
        x = t.concat("concat", x, special.view(load.batch, d_model))
    return FrontOutput(x, n + ahead)
