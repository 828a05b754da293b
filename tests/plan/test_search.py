"""A search against every plan one by one, and what it keeps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calc
from calc.errors import Refused
from calc.memory.totals import memory_ranks
from calc.plan import space
from calc.plan.leaders import UNLIKE, at, best_first, chosen, front, fronts, no_copies
from calc.plan.planning import STEP, answer, search_plans
from calc.plan.question import CONTEXT, Question
from calc.time import predict
from tests.plan.brute import every_plan
from tests.plan.questions import question, small_model

SLOW = ("experts", "large", "six GPUs")
SPACES = {
    "dense": lambda: question(small_model(n_layers=2), sequences=4),
    "six GPUs": lambda: question(small_model(), gpus=6, sequences=6),
    "experts": lambda: question(small_model(n_layers=2, n_experts=4, top_k=2, d_expert=64), sequences=4),
    "whole experts": lambda: question(
        small_model(n_layers=2, n_experts=4, top_k=2, d_expert=64),
        sequences=4,
        fixed={"schedule": "1f1b", "checkpointing": "none", "interleave": 1, "expert_tp": 1},
    ),
    "modules": lambda: question(
        small_model(n_layers=2, n_experts=4, top_k=2, d_expert=64),
        sequences=4,
        fixed={"schedule": "1f1b", "interleave": 1, "cp": 1, "zero": 1, "checkpoint_every": 1},
        words={"stack": "megatron-core"},
        at_most={"pp": 2, "batch": 2},
    ),
    "little memory": lambda: question(small_model(n_layers=2), headroom=0.986, seq=1024, sequences=4),
    "both ends": lambda: question(
        small_model(),
        sequences=16,
        fixed={"schedule": "dualpipe", "tp": 1},
        at_most={"zero": 1},
        words={"stack": "hai-llm"},
    ),
    "large": lambda: question(
        calc.load_model("llama-3-8b"), gpus=2, seq=2048, sequences=4, recipes=("bf16-fsdp", "bf16-master")
    ),
}


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in SPACES])
def test_the_best_is_the_best_of_all(name: str) -> None:
    asked = SPACES[name]()
    alone = every_plan(asked)
    found = answer([asked], top=5)
    assert found.timed == len(alone) > 0
    seconds = sorted(each.seconds for each in alone)
    assert [plan.seconds for plan in found.plans] == pytest.approx(seconds[: len(found.plans)], rel=1e-12)
    # The front of all, by looking at every pair.
    best = {
        (one.seconds, one.peak)
        for one in alone
        if not any(
            other.seconds <= one.seconds and other.peak <= one.peak and (other.seconds, other.peak) != one[1:]
            for other in alone
        )
    }
    shown = [(plan.seconds, plan.peak) for plan in found.front]
    assert all(any(pair == pytest.approx(other, rel=1e-9) for other in best) for pair in shown)
    assert min(peak for _, peak in shown) * (1 - STEP) <= min(peak for _, peak in best)


def test_every_plan_is_listed_once_and_counted_once() -> None:
    asked = question(small_model(n_experts=4, top_k=2, d_expert=64), fixed={})
    rows: list[tuple[Any, ...]] = []
    kinds, unsupported = space.structures(asked)
    for place, words in enumerate([*kinds, *unsupported]):
        for columns in space.chunks(asked, 4, words):
            rows += [(place, *map(float, row)) for row in zip(*columns.values(), strict=True)]
    assert len(rows) == len(set(rows))
    found = answer([asked])
    assert "selective-op" in "".join(found.unread)
    assert found.listed == len(rows) == found.timed + sum(found.ruled.values())


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = answer([SPACES["dense"]()])
    monkeypatch.setattr(space, "CHUNK", 37)
    parts = answer([SPACES["dense"]()])
    assert [plan.run for plan in parts.plans] == [plan.run for plan in whole.plans]
    assert [plan.run for plan in parts.front] == [plan.run for plan in whole.front]
    assert parts.ruled == whole.ruled


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(*(st.integers(0, 9),) * 2, st.integers(0, 3), st.integers(1, 2), st.integers(0, 2)), min_size=1),
    st.integers(1, 4),
    st.integers(1, 6),
)
def test_nothing_kept_is_beaten_and_nothing_lost(rows: list[tuple[int, ...]], top: int, cut: int) -> None:
    """However rows come in chunks, the best, the best of each kind and the front are those of all of them at once."""
    names = ("value", "peak", "parts", "gpus", "tp")
    table = {name: np.array(column, dtype=float) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
    table |= {name: np.ones(len(rows)) for name in UNLIKE if name not in names}
    places = front(table["value"], table["peak"])
    pairs = [(row[0], row[1]) for row in rows]
    for place in places:
        assert not any(
            other != pairs[place] and other[0] <= pairs[place][0] and other[1] <= pairs[place][1] for other in pairs
        )
    kept: dict[str, Any] = {name: column[:0] for name, column in table.items()}
    for start in range(0, len(rows), cut):
        more = {name: np.concatenate([kept[name], column[start : start + cut]]) for name, column in table.items()}
        kept = dict(chosen(more, top))
    assert kept["value"][best_first(kept)][:top].tolist() == sorted(table["value"])[:top]
    of_all = {(table["gpus"][i], table["value"][i], table["peak"][i]) for i in fronts(table)}
    assert {(kept["gpus"][i], kept["value"][i], kept["peak"][i]) for i in fronts(kept)} == of_all
    least = {kind: min(row[0] for row in rows if row[3:] == kind) for kind in {row[3:] for row in rows}}
    in_order = at(kept, best_first(kept))
    assert in_order["value"][no_copies(in_order)][:top].tolist() == sorted(least.values())[:top]


@pytest.mark.parametrize(("model", "cluster", "gpus", "stack"), [
    ("llama-3-8b", "dgx-h100", 16, "torchtitan"),
    ("llama-3-8b", "dgx-a100", 8, "fsdp2"),
    ("qwen3-30b-a3b", "dgx-b200", 16, "megatron-core"),
])  # fmt: skip
def test_a_plan_alone_has_the_same_numbers(model: str, cluster: str, gpus: int, stack: str) -> None:
    spec = calc.load_model(model)
    found = search_plans(spec, cluster, gpus, 4096, 2**20, stack=stack, top=4, at_most={"batch": 2})
    assert found.plans
    for plan in (*found.plans, *found.front):
        alone = predict(spec, plan.question.device, plan.run)
        assert alone.seconds == pytest.approx(plan.value, rel=1e-9)
        ranks = memory_ranks(spec, plan.run)
        assert plan.peak == max(rank.peak for rank in ranks)
        assert plan.reserved + CONTEXT <= plan.question.device.usable
        assert plan.run.step_tokens == 2**20
        assert plan.run.gpus == gpus


def test_what_is_fixed_is_so_and_what_is_bounded_stays_below() -> None:
    spec = calc.load_model("llama-3-8b")
    fixed = {"tp": 2, "checkpointing": "full", "zero": 1}
    found = search_plans(spec, "dgx-h100", 8, 4096, 2**18, fixed=fixed, at_most={"pp": 2, "batch": 1}, top=50)
    runs = [plan.run for plan in found.plans]
    assert runs
    assert all((run.tp, run.checkpointing, run.zero, run.batch) == (2, "full", 1, 1) and run.pp <= 2 for run in runs)


def test_pieces_of_experts_are_fixed_and_bounded_as_a_size() -> None:
    """Dense models have no more kinds of plans for them; one rank alone has whole experts by any name."""
    dense, experts = question(small_model()), question(small_model(n_experts=4, top_k=2, d_expert=64))
    assert {words["expert_tp"] for asked in (dense,) for words in space.structures(asked)[0]} == {None}
    listed = {name: _pieces(replace(experts, **words)) for name, words in {
        "any": {}, "whole": {"fixed": {"expert_tp": 1}}, "two": {"fixed": {"expert_tp": 2}},
        "at most two": {"at_most": {"expert_tp": 2}}, "cut": {"launched": "fsdp2"},
    }.items()}  # fmt: skip
    assert listed == {
        "any": {(1, 1), (2, 2), (2, 1), (4, 4), (4, 1)},
        "whole": {(1, 1), (2, 1), (4, 1)},
        "two": {(2, 2)},
        "at most two": {(1, 1), (2, 2), (2, 1), (4, 1)},
        "cut": {(1, 1), (2, 2), (4, 4)},
    }


def _pieces(asked: Question) -> set[tuple[int, int]]:
    """(tp, pieces of each expert) of all plans that the stack can launch."""
    found: set[tuple[int, int]] = set()
    for words in space.structures(asked)[0]:
        for columns in space.chunks(asked, 4, words):
            found |= {(int(tp), words["expert_tp"] or int(tp)) for tp in columns["tp"]}
    return found


def test_cheaper_is_not_faster() -> None:
    """By time the most GPUs win; by money those with the most MFU."""
    spec = calc.load_model("llama-3-8b")
    words: dict[str, Any] = {"stack": "fsdp2", "at_most": {"batch": 1}, "price": 2.0}
    fast = search_plans(spec, "dgx-h100", [8, 64], 4096, 2**20, **words)
    cheap = search_plans(spec, "dgx-h100", [8, 64], 4096, 2**20, objective="cost", **words)
    assert fast.plans[0].run.gpus == 64
    assert [plan.run.gpus for plan in fast.by_gpus] == [8, 64]
    costs = {plan.run.gpus: plan.seconds * plan.run.gpus for plan in fast.by_gpus}
    assert cheap.plans[0].run.gpus == min(costs, key=lambda gpus: costs[gpus])


def test_an_interrupted_search_answers_with_what_it_found() -> None:
    calls = 0

    def stop(what: str, done: int, total: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt

    found = answer([SPACES["dense"]()], progress=stop)
    assert found.interrupted
    assert found.plans
    assert found.listed < answer([SPACES["dense"]()]).listed


@pytest.mark.parametrize(("words", "field"), [
    ({"gpus": 0}, "--gpus"),
    ({"gpus": 2**40}, "--gpus"),
    ({"fixed": {"heads": 2}}, "--fix"),
    ({"at_most": {"recipe": 2}}, "--at-most"),
    ({"fixed": {"expert_tp": 1}}, "--fix expert_tp"),
    ({"at_most": {"expert_tp": 1}}, "--at-most expert_tp"),
    ({"headroom": 1.0}, "--headroom"),
    ({"global_batch": 1}, "--global-batch"),
    ({"top": 0}, "--top"),
    ({"objective": "cost"}, "--price"),
    ({"stack": "nonsense"}, "--stack"),
    ({"cluster": "dgx-h1000"}, "cluster"),
])  # fmt: skip
def test_refusals(words: dict[str, Any], field: str) -> None:
    asked: dict[str, Any] = {"cluster": "dgx-h100", "gpus": 8, "seq": 1024, "global_batch": 2**16}
    with pytest.raises(Refused) as refused:
        search_plans(calc.load_model("gpt2"), **(asked | words))
    assert refused.value.field == field


def test_questions_know_their_budget() -> None:
    asked: Question = question(small_model(), headroom=0.25)
    assert asked.budget == asked.device.usable * 3 // 4 - 2**30
