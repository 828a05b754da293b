"""A row of a table in, one vector a column out."""

from __future__ import annotations

from calc.blocks.front_output import FrontOutput
from calc.sizes import Size
from calc.spec import Features
from calc.spec.load import Load
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


def features(t: Trace, spec: Features, vocab_size: Size, d_model: Size, load: Load) -> FrontOutput:
    """Rows [batch, columns] -> [batch * (columns + n_special), d_model]: scaling and looking up are 0 FLOPs here."""
    kinds = len(spec.categories)
    numbers: Size = 0 if spec.n_numbers is None else spec.n_numbers
    rows = t.constant(load.batch, numbers + kinds)
    found: list[Tensor] = []
    if spec.n_numbers is not None:
        found.append(_scaled(t, rows, numbers, d_model, load))
    if spec.categories:
        table = t.weight("categories.weight", sum(spec.categories), d_model, of="embedding")
        bias = t.weight("categories.bias", kinds, d_model, of="embedding")
        found.append(t.gather("categories", (table, bias), load.batch * kinds, d_model))
    if spec.n_special:
        special = t.weight("special.weight", spec.n_special, d_model, of="embedding")
        found.append(t.parameters("special", (special,), load.batch * spec.n_special, d_model))
    length = numbers + kinds + spec.n_special
    return FrontOutput(t.joined(*found, rows=load.batch * length, width=d_model), length)


def _scaled(t: Trace, rows: Tensor, n: Size, d_model: Size, load: Load) -> Tensor:
    """Each of the first n columns times a vector of its own, plus another: all of the rows is kept."""
    weights = tuple(t.weight(f"numbers.{name}", n, d_model, of="embedding") for name in ("weight", "bias"))
    read = rows.columns(n)
    y = t.made(load.batch * n, d_model, read, weights=weights)

    def keeps(tape: Tape, x: Storage) -> Storage:
        if weights[0].trainable:
            tape.keep(x, "rows")
        return Storage(y.elements, x.dtype, y.grad)

    t.op("numbers", "elementwise", "scale", (read,), (y,), weights=weights, keeps=keeps)
    return y
