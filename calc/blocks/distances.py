"""Distances in attention as in Transformer-XL (Dai et al. 2019, arXiv:1901.02860, section 3.3)."""

from __future__ import annotations

from calc.sizes import Size
from calc.spec.load import Load
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


def projected_distances(t: Trace, d_model: Size, width: Size, q: Tensor, load: Load) -> Tensor:
    """The sinusoids of all 2 * seq - 1 distances [2 * seq - 1, d_model], projected: the same for all sequences."""
    distances = 0 if load.decode else 2 * load.seq - 1
    sinusoids = Tensor(distances, d_model, False, "none")
    name = f"sinusoids {d_model} wide"

    def keeps(tape: Tape, q: Storage) -> Storage:
        """They serve all layers."""
        known = (each for each in tape.saved if each.common == name)
        return next(known, Storage(sinusoids.elements, q.dtype, False, "none", name))

    t.silent("sinusoids", (q,), sinusoids, keeps)
    return t.linear("pos_proj", sinusoids, width, of="positional", split="tensor", inside=False)


def placed_queries(t: Trace, q: Tensor) -> Tensor:
    """Queries for the products with keys, with a learned vector added, which is as wide as all weights."""
    trained = not t.frozen
    y = q.view(q.rows, q.width)
    y.grad = q.grad or trained
    return t.silent("placed", (q,), y, lambda tape, q: tape.like(q, Storage(0, tape.settings.stream, trained)))
