"""What laws of experts ask of a model: how many experts, how fine, and how many of them rest."""

from __future__ import annotations

from collections.abc import Mapping

from calc.errors import Refused
from calc.laws import LAWS
from calc.laws.base import Law
from calc.spec import ModelSpec, Moe


def measures(spec: ModelSpec) -> dict[str, float]:
    """What laws of experts may ask of a model; a dense one is one expert, none of which rests.

    experts: all of them over those that a token visits, shared ones among both, by their widths: the expansion.
    granularity: how many experts' widths a token visits; a dense model has none. sparsity: 1 - top_k / n_experts.
    Errors: Refused for layers whose experts differ.
    """
    # How tokens choose among experts may differ by layer, as DeepSeek-V4's tables and scores do; how many may not.
    mixtures = {
        (moe.n_experts, moe.visits, (moe.d_shared or 0) / moe.d_expert)
        for group in spec.layers
        if isinstance(moe := group.channel, Moe)
    }
    if not mixtures:
        return {"experts": 1.0, "sparsity": 0.0}
    if len(mixtures) > 1:
        raise Refused(spec.name, "experts of one kind in all layers that have some", f"{len(mixtures)} kinds")
    n_experts, top_k, shared = mixtures.pop()
    visited = top_k + shared
    expansion = (n_experts + shared) / visited
    return {"experts": float(expansion), "granularity": float(visited), "sparsity": 1 - top_k / n_experts}


def of_model(field: str, spec: ModelSpec, law: Law) -> dict[str, float]:
    """The routing of a model as a law asks for it; empty for a law that knows none.

    Errors: as `measures`; Refused for experts under a law of dense models, and for a dense model under one of fine
    experts.
    """
    if not law.routing:
        if spec.has_experts:
            raise Refused(field, f"a model without experts ({with_experts()})", spec.name)
        return {}
    known = measures(spec)
    if any(name not in known for name in law.routing):
        raise Refused(field, f"a model with experts, as {law.name} was fitted on", spec.name)
    return {name: known[name] for name in law.routing}


def nearest(spec: ModelSpec | None, routing: Mapping[str, float | None]) -> str | None:
    """The law that knows what a question says of experts, or a model's; None for a dense one."""
    named = [name for name, value in routing.items() if value is not None]
    if not named and (spec is None or not spec.has_experts):
        return None
    return next((law.name for law in LAWS if law.routed and {*named} <= {*law.routing}), None)


def knows(law: Law, routing: Mapping[str, float | None]) -> None:
    """Errors: Refused for what is said of experts to a law of dense models, with those that know it."""
    for name, value in routing.items():
        if value is not None and not law.routing:
            known = [f"--law {each.name}" for each in LAWS if each.routed and name in each.routing]
            raise Refused(f"--{name}", f"{' or '.join(known)} beside it", f"--law {law.name}")


def with_experts() -> str:
    """The laws that have an optimum for experts, for messages."""
    names = [f"--law {law.name}" for law in LAWS if law.routed]
    return f"{', '.join(names[:-1])} and {names[-1]} take experts"
