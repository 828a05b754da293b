"""Mixers side by side in one layer."""

from __future__ import annotations

from calc.blocks.registry import MIXERS
from calc.blocks.surroundings import Surroundings
from calc.spec import Parallel
from calc.spec.load import Load
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


def parallel(t: Trace, spec: Parallel, x: Tensor, load: Load, around: Surroundings) -> Tensor:
    """The sum of what each branch's mixer makes of x [batch * seq, d_model] (Falcon-H1, arXiv:2507.22448, section 2).

    Multipliers of branches are products number by number, 0 FLOPs.
    """
    made: list[Tensor] = []
    for branch in spec.branches:
        program = MIXERS[type(branch.mixer)]
        read = x if branch.scale_in == 1.0 else t.scaled(f"{program.name}_in", x)
        with t.part(program.name, read, of=program.of) as out:
            out.append(program.run(t, branch.mixer, read, load, around))
        y = out[0]
        made.append(y if branch.scale_out == 1.0 else t.scaled(f"{program.name}_out", y))
    return t.add("add", *made)
