"""Patches that an encoder saw, and learned vectors in the places of those that it did not."""

from __future__ import annotations

from calc.blocks.front_output import FrontOutput
from calc.blocks.patches import fitted, patches_along
from calc.errors import Refused
from calc.sizes import Size
from calc.spec import Restored
from calc.spec.load import Load
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


def restored(
    t: Trace, spec: Restored, vocab_size: Size, d_model: Size, load: Load, read: tuple[Tensor, Size] | None = None
) -> FrontOutput:
    """An encoder's vectors [batch * (seen + 1), d_model] -> [batch * (rows * columns + 1), d_model].

    read: these, and how many of them a picture has. The first one of a picture stands for no patch.
    """
    if read is None:
        raise Refused("encoder", "a stack that gives a decoder the patches it saw", None)
    x, length = read
    n = places(spec, load)
    vector = t.weight("mask.weight", d_model, of="embedding")
    masks = t.parameters("mask", (vector,), load.batch * (n - length), d_model)
    x = t.concat("concat", x.view(load.batch * (length - 1), d_model), masks)
    x = t.picked("unshuffle", x, load.batch * (n - 1))
    x = t.concat("special_concat", x, read[0].view(load.batch, d_model))
    table = t.weight("position.weight", spec.n_positions, d_model, of="positional", trainable=False)
    positions = t.parameters("position", (table,), n, d_model, of="positional")
    return FrontOutput(t.add("position_add", x, fitted(t, positions, load), of="positional"), n)


def places(spec: Restored, load: Load) -> Size:
    """Patches of one picture, and the vector ahead of them."""
    height, width = (spec.height, spec.width) if load.image is None else load.image
    return patches_along(height, spec.patch_height, None) * patches_along(width, spec.patch_width, None) + 1
