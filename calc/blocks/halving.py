"""Between blocks of layers that read ever fewer vectors of a text, and ahead of those that read all again (Funnel).

Source: Dai et al. 2020 (arXiv:2006.03236, section 2.2); transformers 5.23, models/funnel/modeling_funnel.py.
"""

from __future__ import annotations

from dataclasses import replace

from calc.blocks.surroundings import Halvings, Surroundings
from calc.errors import Refused
from calc.sizes import holds, is_symbolic
from calc.spec import Halved
from calc.spec.load import Load
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


def halved(t: Trace, name: str, spec: Halved, x: Tensor, load: Load, around: Surroundings) -> tuple[Tensor, Load]:
    """x [batch * seq, d] -> [batch * (about seq / 2), d], and the load of these. name: of the layers that read them.

    Errors: Refused for texts of so few vectors that transformers leaves them as they are.
    """
    least = 3 if spec.first_apart else 2
    if not is_symbolic(load.seq) and holds(load.seq < least):
        raise Refused("seq", f"texts of {least} vectors or more ahead of {name}, which others do not halve", load.seq)
    with t.part(f"halvings.{name}", x, of="other") as out:
        read = x
        if spec.first_apart:
            read = t.joined(x, rows=load.batch * spec.laid(load.seq), width=x.width)
        left = spec.count(load.seq)
        out.append(t.neighbours("pool", read, load.batch * left, largest=spec.how == "max"))
    whole = (x, load) if around.stage is None else around.stage.whole
    around.stage = Halvings(name, whole, (x, load), around.stage)
    return out[0], replace(load, seq=left)


def upsampled(t: Trace, name: str, x: Tensor, load: Load, around: Surroundings) -> tuple[Tensor, Load]:
    """Each vector of x [batch * few, d] repeated until there are as many as ahead of the first halving, plus what stood
    there; and the load of that."""
    whole, of_all = (x, load) if around.stage is None else around.stage.whole
    with t.part(f"halvings.{name}", x, whole, of="other") as out:
        read = x if around.stage is None else t.joined(x, rows=whole.rows, width=x.width)
        out.append(t.add("add", read, whole))
    around.stage = Halvings(name, (out[0], of_all))
    return out[0], of_all
