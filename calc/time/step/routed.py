"""What the time of a layer's experts depends on, from one of their products."""

from __future__ import annotations

from calc.spec.run import Run
from calc.time.kernels.kernel import Routed
from calc.trace.functions import Matmul
from calc.trace.op import Op
from calc.trace.part import Leaf, Part


def routed(leaf: Leaf, plan: Run, visits: float) -> Routed | None:
    """The experts that `leaf` is a product of; None for all other ops. visits: rows that they compute on one rank."""
    part = next((each for each in reversed(leaf.parents) if each.expert), None)
    if part is None or part.active is None:
        return None
    products = [op.shape for op in _ops(part) if isinstance(op.shape, Matmul) and op.shape.weighed]
    first, active = products[0], float(part.active)
    return Routed(
        tokens=float(visits) * plan.ep / active,
        hidden=float(first.k),
        inter=float(first.n),
        experts=float(part.copies),
        top_k=active,
        tp=float(plan.expert_pieces),
        ep=float(plan.ep),
        skew=_skew(plan.routing),
        products=len(products),
    )


def _ops(part: Part) -> list[Op]:
    return [op for each in part.body for op in (_ops(each) if isinstance(each, Part) else [each])]


def _skew(routing: str) -> float:
    """The exponent of a power law; a uniform choice is as even as a balanced one, but for which experts are reached."""
    return float(routing.partition(":")[2]) if routing.startswith("power-law:") else 0.0
