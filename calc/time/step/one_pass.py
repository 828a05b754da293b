"""One pass through a whole model on one rank: its kernels with their times, and sums of these by where they stand.

All that the data-parallel ranks, the stages of a pipeline and the number of micro-batches leave alone. A search over
plans asks for the same few passes again and again, so the last ones are remembered.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from calc.memory.sharding import Stage
from calc.memory.states import states
from calc.sizes import Size
from calc.spec import ModelSpec
from calc.spec.cache_key import CacheKey
from calc.spec.run import Run
from calc.time.kernels.kernel import Kernel
from calc.time.kernels.timing import Timing
from calc.time.step import chain_times
from calc.time.step.activations_on_host import moved_bytes
from calc.time.step.chain_times import OF_RANKS, Question, TimedPass, timed_passes
from calc.time.step.mfu import NOT_COUNTED, Counting, model_flops

MOST = 4096
"""Passes that are remembered: of a search over hundreds or thousands of GPUs one needs up to 2,500, and the next asks
for most of them again; of one that needs more than are kept, none would be found. 4,000 hold about 100 MB."""
BETWEEN = (
    *("dp", "pp", "zero", "interleave", "micro_batches", "stages", "optimizer", "shard", "schedule", "stack"),
    *("offload_fraction", "fp8_recipe", "precision_aware"),
)
"""Words of a run that no pass depends on."""
WORDS = tuple(name for name in Run.model_fields if name not in BETWEEN)
ALIKE = tuple(
    name
    for name in WORDS
    if name not in (*OF_RANKS, "checkpointing", "checkpoint_every", "recompute", "offload", "offload_layers")
)
"""Of these, what chains of kernels depend on that have their ranks' shares in common."""
OF_STACK = (
    *("accumulates", "attention", "bias_an_expert", "deepep", "graphs", "joins", "once_a_rank"),
    "product_an_expert",
)
"""What of a stack a pass depends on."""


Sums = Mapping[str, Size]
"""Place (a group of layers, `front`, `end`) -> seconds or numbers of all that stands there."""


@dataclass(frozen=True, slots=True)
class PassSums:
    """What a pass takes by place; in every number a column where there are many passes.

    device, host: seconds by stretch (`calc.time.step.prediction`) and place. sent: of collectives between ops, by
    which ranks they are between, and place. launched: kernels that hosts launch, by place. weights: of the device's
    seconds, those of products for weights' gradients, by place.
    elements, trained: parameters of a rank: of one layer of each group, of the first and of the last stage of several
    (`front`, `end`), of one that is both (`both`), and what every stage has (`all`). narrow: those in matrices with
    narrow copies. expert_elements, expert_trained, expert_narrow: those of them in experts that are spread over ranks.
    flops: of the model, as `counting` says, for MFU.
    moved: bytes of what layers keep on the host.
    """

    device: Mapping[str, Sums]
    host: Mapping[str, Sums]
    sent: Mapping[str, Sums]
    launched: Sums
    weights: Sums
    elements: Sums
    trained: Sums
    expert_elements: Sums
    expert_trained: Sums
    narrow: Sums
    expert_narrow: Sums
    flops: Size
    counting: Counting
    moved: Size = 0.0


class Pass(NamedTuple):
    """kernels, messages: of the whole model, with the time of one call; sums: of their times."""

    kernels: tuple[tuple[Kernel, Timing], ...]
    messages: tuple[tuple[Kernel, Timing], ...]
    sums: PassSums


_KNOWN: OrderedDict[Any, Pass] = OrderedDict()


def forget() -> None:
    """No pass is remembered any more, and nothing that several have in common."""
    _KNOWN.clear()
    chain_times.forget()


def passes(question: Question, runs: Sequence[Run]) -> list[Pass]:
    """One pass of each of `runs`, whose sizes are numbers. What is not remembered is asked of the models all at once.

    Errors: Refused as `calc.time.predict`.
    """
    own = (CacheKey(question.spec), CacheKey(question.speed), question.within, question.directions, question.level)
    keys = [(own, _of_stack(run), *(getattr(run, name) for name in WORDS)) for run in runs]
    found = {key: _KNOWN[key] for key in keys if key in _KNOWN}
    new = {key: run for key, run in zip(keys, runs, strict=True) if key not in found}
    found |= dict(zip(new, _worked_out(question, own, list(new.values())), strict=True))
    for key, each in found.items():
        _KNOWN[key] = each
        _KNOWN.move_to_end(key)
    while len(_KNOWN) > MOST:
        _KNOWN.popitem(last=False)
    return [found[key] for key in keys]


def _worked_out(question: Question, own: Any, runs: Sequence[Run]) -> list[Pass]:
    if not runs:
        return []
    words = [{"own": own, "stack": _of_stack(run), **{name: getattr(run, name) for name in ALIKE}} for run in runs]
    found = []
    for run, timed in zip(runs, timed_passes(question, runs, words), strict=True):
        kernels = tuple(each for chain in timed.chains for each in chain.kernels)
        found.append(Pass(kernels, timed.messages, _sums(question, run, timed)))
    return found


def _of_stack(run: Run) -> tuple[Any, ...] | None:
    """What of its stack a pass depends on."""
    return None if run.stack is None else tuple(getattr(run.stack, name) for name in OF_STACK)


def _sums(question: Question, run: Run, timed: TimedPass) -> PassSums:
    totals = timed.totals
    sent: dict[str, dict[str, float]] = {}
    for kernel, timing in timed.messages:
        assert kernel.between is not None
        between = sent.setdefault(kernel.between, {})
        between[kernel.place] = between.get(kernel.place, 0.0) + kernel.calls * timing.seconds
    copied = run.trains and run.narrow_weights is not None
    held = _held(CacheKey(question.spec), _Ranks(run.tp, run.ep, run.expert_tp, run.mtp, copied, run))
    counted = model_flops(question.spec, run) if not question.within and run.phase != "decode" else (0.0, NOT_COUNTED)
    moved = 0.0 if question.within else moved_bytes(question.spec, run)
    flops, counting = counted
    return PassSums(totals.device, totals.host, sent, totals.launched, totals.weights, *held, flops, counting, moved)


@dataclass(frozen=True, slots=True)
class _Ranks:
    """A run, and what of it the parameters of a rank depend on before ZeRO divides them."""

    tp: Size
    ep: Size
    expert_tp: Size | None
    mtp: bool
    copied: bool
    run: Run = field(compare=False)


@lru_cache(maxsize=MOST)
def _held(described: CacheKey[ModelSpec], ranks: _Ranks) -> tuple[Sums, Sums, Sums, Sums, Sums, Sums]:
    """Parameters by place, all and those that are trained, the same of experts where these are spread over ranks, and
    of both those in matrices with narrow copies: differences between stages that differ in one."""
    spec, run = described.value, ranks.run
    none = {group.name: 0 for group in spec.layers}
    cut = [Stage("", none, False, False), *(Stage("", none | {name: 1}, False, False) for name in none)]
    cut += [Stage("", none, True, False), Stage("", none, False, True), Stage("", none, True, True)]
    held = states(spec, run, cut)
    places = ("all", *none, "front", "end", "both")

    def by_place(field: str) -> Sums:
        counts = [getattr(each, field) for each in held]
        own = [count - (counts[0] if place != "all" else 0) for place, count in zip(places, counts, strict=True)]
        return dict(zip(places, own, strict=True))

    spread = run.ep * run.folded > 1
    none_spread: Sums = dict.fromkeys(places, 0.0)
    of_experts = ("expert_elements", "expert_trained", "expert_narrow")
    experts, trained, narrow = (by_place(name) if spread else none_spread for name in of_experts)
    return by_place("elements"), by_place("trained"), experts, trained, by_place("narrow"), narrow
