"""A router of several layers, which reads what that of the layer before made (ZAYA1)."""

from __future__ import annotations

from calc.blocks.surroundings import Surroundings
from calc.sizes import Size
from calc.spec import DeepRouter
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


def deep_router(t: Trace, spec: DeepRouter, x: Tensor, n_scores: Size, around: Surroundings) -> Tensor:
    """x [tokens, d_model] -> [tokens, n_scores]: 2 * d_router * (d_model + 2 * d_router + n_scores) FLOPs a token.

    What stands ahead of its norm is left for the next layer, a copy of it. Source: as calc.spec.deep_router.DeepRouter.
    """
    with t.part("router", x, of="router") as out:
        made = t.linear("down", x, spec.d_router, bias=True)
        if spec.carries:
            assert around.router is not None
            made = t.add("carry_add", made, t.weighed("carry", around.router))
        left = t.made(made.rows, made.width, made)
        t.op("left", "elementwise", "copy", (made,), (left,), keeps=_left)
        y = t.norm("norm", spec.norm, made)
        for name in ("first", "second"):
            y = t.activation(f"{name}_act", "gelu", t.linear(name, y, spec.d_router, bias=True))
        out.append(t.linear("scores", y, n_scores))
    around.router = left
    return out[0]


def _left(tape: Tape, read: Storage) -> Storage:
    return tape.like(read, dtype=tape.settings.stream)
