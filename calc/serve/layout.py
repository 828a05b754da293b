"""How a served model lies over GPUs: attention, experts, pipeline and replicas."""

from __future__ import annotations

from dataclasses import dataclass

from calc.errors import Refused
from calc.memory.conditions import tensor
from calc.spec import ModelSpec, Moe


@dataclass(frozen=True, slots=True)
class Layout:
    """Ranks of one server.

    tp: GPUs that share the heads of one sequence. attention_dp: groups of `tp` GPUs that each hold other sequences and
    all of attention's weights, while experts are spread over all of them. pp: stages of a pipeline. moe_tp, ep: the
    tp * attention_dp GPUs of a stage are moe_tp * ep for experts: each expert is cut into moe_tp pieces, and each rank
    holds 1 / ep of the experts. replicas: such servers behind one router, each with its share of the requests.
    """

    tp: int = 1
    pp: int = 1
    attention_dp: int = 1
    ep: int = 1
    replicas: int = 1

    @property
    def wide(self) -> int:
        """GPUs of one stage of one server."""
        return self.tp * self.attention_dp

    @property
    def moe_tp(self) -> int:
        """Pieces of an expert."""
        return self.wide // self.ep

    @property
    def gpus_each(self) -> int:
        """GPUs of one server."""
        return self.wide * self.pp

    @property
    def gpus(self) -> int:
        """GPUs of all replicas."""
        return self.gpus_each * self.replicas


def layout_of(
    spec: ModelSpec,
    gpus: int | None = None,
    tp: int | None = None,
    pp: int = 1,
    attention_dp: int = 1,
    ep: int | None = None,
    moe_tp: int | None = None,
) -> Layout:
    """The layout that is meant by what was said of it.

    gpus: of all replicas; None: as many as one server takes. tp: None: all GPUs that nothing else takes. ep: None: what
    moe_tp leaves, else 1. With both 1, experts are cut as attention is.
    Errors: Refused where numbers do not divide one another or the model.
    """
    alone = tp is None and gpus is not None
    if tp is None:
        tp = 1 if gpus is None else _quotient("--gpus", gpus, pp * attention_dp, "pp * attention_dp")
    each = tp * pp * attention_dp
    replicas = 1 if gpus is None else _quotient("--gpus", gpus, each, "tp * pp * attention_dp")
    wide = tp * attention_dp
    if moe_tp == ep == 1:
        # One piece on one rank is said of models without experts, and where nobody divided them.
        moe_tp, ep = None, 1
    if moe_tp is not None and ep is not None and moe_tp * ep != wide:
        raise Refused("--moe-tp", f"moe_tp * ep to be tp * attention_dp = {wide}", f"{moe_tp} * {ep}")
    if ep is None:
        ep = 1 if moe_tp is None else _part("--moe-tp", moe_tp, wide)
    _part("--ep", ep, wide)
    try:
        _check(spec, tp, pp, ep, wide // ep)
    except Refused as error:
        if error.field != "--tp" or not alone:
            raise
        which = "all of them" if each == tp else f"{tp}, gpus / (pp * attention_dp)"
        expected = f"{error.expected} as --tp, which is {which}, or --tp beside it"
        raise Refused("--gpus", expected, gpus) from None
    return Layout(tp, pp, attention_dp, ep, replicas)


def _check(spec: ModelSpec, tp: int, pp: int, ep: int, moe_tp: int) -> None:
    """Errors: Refused where the model cannot be divided so."""
    if tp > 1 or moe_tp > 1:
        try:
            for each in tensor(spec, tp, moe_tp):
                if not each.test(each.a, each.b):
                    raise Refused(each.field, each.expected, each.found)
        except Refused as error:
            raise Refused("--tp", error.expected, int(error.found)) from None
    for group in spec.layers:
        if isinstance(group.channel, Moe) and group.channel.n_experts % ep:
            raise Refused("--ep", f"a divisor of the {group.channel.n_experts} experts", ep)
    if pp > 1 and spec.routers_carry:
        raise Refused("--pp", "1 for a model whose routers read those of the layer before", pp)
    if pp > spec.n_layers:
        raise Refused("--pp", f"at most the {spec.n_layers} layers", pp)
    if ep > 1 and not spec.has_experts:
        raise Refused("--ep", "1 for a model without experts", ep)


def _part(field: str, part: int, wide: int) -> int:
    """What a divisor leaves of the GPUs of a stage. Errors: Refused for another number."""
    if wide % part:
        raise Refused(field, f"a divisor of tp * attention_dp = {wide}", part)
    return wide // part


def _quotient(field: str, whole: int, part: int, name: str) -> int:
    if whole % part:
        raise Refused(field, f"a multiple of {name} = {part}", whole)
    return whole // part
