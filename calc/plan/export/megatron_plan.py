"""A launch file in Megatron-Core's terms, read: each tool says by which names, and what it says in a way of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from calc.errors import Refused
from calc.memory.fp8_conditions import check_scaling
from calc.plan.export.launch import Read
from calc.plan.export.megatron_experts import unread_dispatcher
from calc.plan.export.megatron_recompute import checkpointed, modules_read
from calc.plan.export.settings import gpus_of, one_of, whole

GRAPHS = "the memory of CUDA graphs of layers"
GRANULARITIES = {"selective": "selective", "full": "full"}


class PlanWords(NamedTuple):
    """Names of the settings of one tool. sizes: name -> field of a Run. off: how it says that a setting is.
    not_described: name -> what of it is not."""

    sizes: Mapping[str, str]
    pieces: str
    sequence_parallel: str
    granularity: str
    modules: str
    method: str
    layers: str
    dispatcher: str
    scaling: str
    global_batch: str
    nodes: str
    per_node: str
    n_layers: str
    width: str
    off: str
    not_described: Mapping[str, str]

    @property
    def names(self) -> tuple[str, ...]:
        """Of settings with a name each."""
        return tuple(word for field, word in self._asdict().items() if isinstance(word, str) and field != "off")


def granularity_read(found: Mapping[str, str], name: str, where: str) -> str:
    """How much is computed again; nothing where nothing is said."""
    return one_of(found, name, GRANULARITIES, "", where) if name in found else "none"


def read_plan(
    found: Mapping[str, str],
    names: PlanWords,
    own: Mapping[str, Any],
    modules: Sequence[str] | None,
    on: Callable[[str], bool],
    where: str,
) -> Read:
    """What a file says of a plan, but for stages and settings that are not read. own: words that the tool says in its
    own way, zero, recipe and checkpointing among them. modules: those that are computed again, None for the usual one.
    on: whether a setting is.

    Errors: Refused for what is not described, and for what Megatron-Core would refuse.
    """
    sizes = {field: whole(found, name, where, 1) for name, field in names.sizes.items() if field != "seq"}
    words: dict[str, Any] = {**sizes, **own}
    seq = next(name for name, field in names.sizes.items() if field == "seq")
    if (length := whole(found, seq, where)) is not None:
        words["seq"] = length
    if (pieces := whole(found, names.pieces, where)) not in (None, words["tp"]):
        words["expert_tp"] = pieces
    if words["tp"] > 1 and not on(names.sequence_parallel):
        words["sequence_parallel"] = False
    if words["checkpointing"] == "selective":
        words |= modules_read(modules, f"{where}: {names.modules}")
    for name, what in names.not_described.items():
        if on(name):
            raise Refused(f"{where}: {name}", f"{names.off}: {what} is not described", found[name] or "given")
    check_scaling(words["fp8_recipe"], words.get("recompute", ()), f"{where}: {names.scaling}")
    full = words["checkpointing"] == "full"
    return Read(
        words=words,
        sequences=whole(found, names.global_batch, where),
        gpus=gpus_of(found, names.nodes, names.per_node, where),
        unread=unread_dispatcher(found, names.dispatcher, where),
        n_layers=whole(found, names.n_layers, where),
        width=whole(found, names.width, where),
        checkpointed=checkpointed(found, names.method, names.layers, where) if full else None,
    )
