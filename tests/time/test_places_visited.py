"""To how many places a token's experts lead: held to every choice that a small router can make, counted one by one."""

from __future__ import annotations

from itertools import combinations
from statistics import fmean

import pytest

from calc.architectures.models import load_model
from calc.spec import Moe
from calc.spec.experts import ExpertGroups
from calc.time import predict
from calc.time.step.places_visited import places_visited


def moe(n_experts: int, top_k: int, groups: tuple[int, int] | None = None, n_zero: int | None = None) -> Moe:
    limited = None if groups is None else ExpertGroups(count=groups[0], chosen=groups[1])
    return Moe(n_experts=n_experts, top_k=top_k, d_expert=4, groups=limited, n_zero=n_zero)


def counted(channel: Moe, width: int) -> float:
    """The mean over all choices of groups and of experts in them, `width` experts a place; others lie nowhere."""
    n, k = int(channel.n_experts), int(channel.top_k)
    count, chosen = (1, 1) if channel.groups is None else (channel.groups.count, channel.groups.chosen)
    nowhere = range(n, n + (0 if channel.n_zero is None else int(channel.n_zero)))
    return fmean(
        len({expert // width for expert in experts if expert < n})
        for groups in combinations(range(count), chosen)
        for experts in combinations([*(each for each in range(n) if each * count // n in groups), *nowhere], k)
    )


@pytest.mark.parametrize("width", [1, 2, 3, 4, 6, 12])
@pytest.mark.parametrize(
    "channel",
    [
        moe(12, 1),
        moe(12, 4),
        moe(12, 4, groups=(4, 2)),
        moe(12, 3, groups=(3, 1)),
        moe(12, 3, groups=(2, 1)),
        moe(12, 4, n_zero=4),
    ],
)
def test_places_are_those_of_all_choices_in_the_mean(channel: Moe, width: int) -> None:
    assert places_visited(channel, 12 / width) == pytest.approx(counted(channel, width), rel=1e-12)


@pytest.mark.parametrize("width", [5, 8])
def test_the_last_place_has_what_others_leave(width: int) -> None:
    """12 ranks in domains of 8 are one and a half."""
    channel = moe(12, 4, groups=(4, 2))
    assert places_visited(channel, 12 / width) == pytest.approx(counted(channel, width), rel=1e-12)


def test_a_rank_for_every_expert_gets_a_row_for_each() -> None:
    """Two experts of Mixtral are two ranks where each has one: no choice is made twice."""
    words = {"phase": "training", "seq": 1024, "cluster": "dgx-h100", "stack": "megatron-core", "dp": 8, "ep": 8}
    found = predict(load_model("mixtral-8x7b"), "h100-sxm", **words)
    sent = {row.kernel.bytes for row in found.kernels if row.kernel.function == "all_to_all"}
    assert sent == {1024 * 2 * 4096 * 2}


@pytest.mark.parametrize(("ranks", "places"), [(2, 1.93), (4, 2.93), (8, 3.63), (32, 6.60)])
def test_of_fewer_ranks_than_groups_some_have_several(ranks: int, places: float) -> None:
    """DeepSeek-V3's 8 groups of 32, of which 4 are open; drawn 20,000 times: 1.92, 2.93, 3.63, 6.60."""
    (channel,) = (group.channel for group in load_model("deepseek-v3").layers if isinstance(group.channel, Moe))
    assert places_visited(channel, ranks) == pytest.approx(places, abs=0.005)
