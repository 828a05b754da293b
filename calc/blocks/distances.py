"""Distances in attention as in Transformer-XL (Dai et al. 2019, arXiv:1901.02860, section 3.3)."""

from __future__ import annotations

from calc.sizes import Size
from calc.spec.load import Load
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


def projected_distances(
    t: Trace, d_model: Size, width: Size, q: Tensor, load: Load, *, each: bool, further: bool
) -> Tensor:
    """The sinusoids of all 2 * seq - 1 distances [2 * seq - 1, d_model], projected: the same for all sequences.

    each: they are projected for each sequence. further: of one distance more (XLNet).
    """
    distances = 0 if load.decode else 2 * load.seq - (0 if further else 1)
    if each:
        distances = load.batch * distances
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


def segments(t: Trace, heads: Size, d_head: Size) -> None:
    """XLNet's vectors of two segments, and what is added to queries for them: unread by a text without segments."""
    weights = (
        t.weight("segment_bias", heads, d_head, of="positional"),
        t.weight("segment_vectors", 2, heads, d_head, of="positional"),
    )
    t.parameters("segments", weights, 0, d_head, of="positional")
