"""How many GPUs fast links join, and what leads beyond: said once, read by times of passes and of servers alike."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from calc.architectures.models import load_model
from calc.errors import Refused
from calc.serve.closed_form import capacity_of
from calc.serve.constants import Fitted, constants
from calc.serve.formats import served_format
from calc.serve.layout import layout_of
from calc.serve.links import HOSTED_BEGINS
from calc.serve.rates import rates_of
from calc.serve.service import service_of
from calc.serve.step import Rates, StepLoad, step_time
from calc.spec.catalogue import load_device
from calc.spec.clusters import load_cluster
from calc.spec.run import Run
from calc.time import predict
from calc.time.cluster import crossing
from calc.time.cluster.links import Links, adapter, domain_of, hosted_share, links_of
from calc.time.models.collective import EFFICIENCY
from calc.time.step.plans import step_times
from tests.conventions.shapes import LLAMA_3


@pytest.mark.parametrize(("gpu", "joined"), [("gb200", 72), ("gb300", 72), ("b200", 8), ("h100-sxm", 8), ("l40s", 8)])
def test_fast_links_join_what_the_device_says_wherever_it_is_asked(gpu: str, joined: int) -> None:
    """A token without a cluster and a server's step reach as far over fast links; beyond them `predict` asks which."""
    device = load_device(gpu)
    assert domain_of(device) == links_of(Run(), device).domain == joined
    predict(LLAMA_3["70B"], gpu, phase="decode", tp=min(joined, 64))
    with pytest.raises(Refused, match=f"a domain of {joined} GPUs"):
        predict(LLAMA_3["8B"], gpu, phase="training", seq=512, dp=2 * joined)
    within, beyond = (rates_of(device, served_format("bf16"), "vllm", n, False) for n in (joined, 2 * joined))
    linked = device.link_one_way or device.host.value / 2  # type: ignore[union-attr]
    hosted = hosted_share(device, joined)
    assert within.link == pytest.approx(linked * constants()["link"] if device.link_one_way else hosted)
    # All cards of a domain together carry twice the half that leaves it.
    cards = adapter(gpu) * constants()["network"] * (2 * joined - 1)
    assert beyond.link == pytest.approx(min(cards, within.link))
    assert beyond.latency > within.latency


@pytest.mark.parametrize("gpu", ["a100-pcie-80gb", "h100-pcie", "h100-nvl", "a40", "rtx-a6000", "rtx-3090"])
def test_a_bridge_joins_two_cards_and_the_host_the_others_of_a_node(gpu: str) -> None:
    device = load_device(gpu)
    assert domain_of(device) == 2
    assert device.host is not None
    assert device.link_one_way is not None
    hosted = hosted_share(device, 8)
    assert hosted is not None
    assert hosted == pytest.approx(0.4 * device.host.value / 2)
    share = pytest.approx(hosted / crossing.constants()["across"]["efficiency"])
    assert [links_of(Run(dp=n), device) for n in (2, 8, 16)] == [Links(2, share, 8)] * 3  # pyright: ignore[reportArgumentType]
    assert links_of(Run(dp=8, network=1e9), device) == Links(2, 1e9)
    assert links_of(Run(dp=8, network=1e12), device) == Links(2, share)  # pyright: ignore[reportArgumentType]
    rates = {n: rates_of(device, served_format("bf16"), "vllm", n, False) for n in (2, 4, 8, 16)}
    # Of a sum over four, each card carries half of three halves through the host.
    assert rates[4].link == pytest.approx(min(hosted * 3, rates[2].link))
    assert rates[2].link >= rates[4].link >= rates[8].link * 0.99
    assert rates[4].latency > rates[2].latency
    with pytest.raises(Refused, match="a node of 8 GPUs"):
        predict(LLAMA_3["8B"], gpu, phase="training", seq=512, dp=16)


@pytest.mark.parametrize("tp", [1, 2, 4])
def test_plans_in_a_column_cross_bridges_as_each_alone(tp: int) -> None:
    """Also where some of a column have more GPUs than a node, over which nothing is known."""
    words = {"tp": tp, "phase": "training", "seq": 512, "recipe": "bf16-mixed"}
    replicas = [n for n in (1, 2, 4, 8, 16) if n * tp <= 32]
    found = step_times(load_model("gpt2"), "a100-pcie-80gb", dp=np.array(replicas), **words).seconds
    for dp, seconds in zip(replicas, found, strict=True):
        if dp * tp > 8:
            assert math.isnan(seconds)
            with pytest.raises(Refused, match="a node of 8 GPUs"):
                predict(load_model("gpt2"), "a100-pcie-80gb", dp=dp, **words)
        else:
            assert predict(load_model("gpt2"), "a100-pcie-80gb", dp=dp, **words).seconds == pytest.approx(seconds)


@pytest.mark.parametrize("ranks", [9, 11, 12, 16, 24, 64])
def test_sums_beyond_a_domain_take_what_predictions_of_passes_say(ranks: int) -> None:
    """At shares of links and cards that are those of `Crossing`: a message of 1 GB over H200, eight a node."""
    device, table = load_device("h200"), crossing.constants()["across"]
    own, near = device.link_one_way, max(n for n in range(1, 9) if ranks % n == 0)
    assert own is not None
    shares = {**constants(), "link": EFFICIENCY, "network": table["efficiency"]}
    rates = rates_of(device, served_format("bf16"), "vllm", ranks, False, shares)
    said = crossing.Crossing("all_reduce", adapter("h200"), own).seconds(1e9, ranks, near)
    assert rates.latency + 1e9 * 2 * (ranks - 1) / ranks / rates.link == pytest.approx(said)


@pytest.mark.parametrize("name", ["gb200-nvl72", "gb300-nvl72"])
def test_a_cluster_that_says_no_domain_has_its_devices(name: str) -> None:
    cluster = load_cluster(name)
    assert cluster.domain == domain_of(load_device(cluster.gpu)) == 72
    assert load_cluster("gb200-nvl36").domain == 36


def test_an_adapter_is_that_of_the_best_linked_cluster() -> None:
    """Of A100 with 40 GB eight cards of 200 Gb/s, and 400 Gb/s a machine of eight in p4d; of L4 no cluster is known."""
    assert adapter("a100-sxm-40gb") == 200e9 / 8
    assert adapter("gb300") == 800e9 / 8
    assert adapter("l4") == 400e9 / 8


BEGINS = Fitted(constants()).of("latency", "Hopper", "vllm")
"""Seconds in which a sum over two H100 begins."""


def _stages(gpu: str, wide: int, stages: int, engine: str = "vllm") -> Rates:
    return rates_of(load_device(gpu), served_format("bf16"), engine, wide, False, stages=stages)


def test_a_stage_hands_on_as_its_own_links_allow() -> None:
    """Whatever a stage sums over: the link of one GPU to the next, and where that begins."""
    own = load_device("h100-sxm").link_one_way
    assert own is not None
    for wide in (1, 2, 4):
        rates = _stages("h100-sxm", wide, 2)
        assert rates.stage_link == pytest.approx(own * constants()["link"])
        assert rates.stage_latency == pytest.approx(BEGINS)
    hosted = _stages("l40s", 1, 4)
    assert hosted.stage_link == pytest.approx(hosted_share(load_device("l40s"), 2))
    assert hosted.stage_latency == HOSTED_BEGINS


def test_stages_beyond_a_domain_are_reached_by_adapters() -> None:
    """Of eight GPUs a domain: two stages of eight meet over the adapter, four of four once in three times."""
    known, own = constants(), load_device("h100-sxm").link_one_way
    assert own is not None
    far, near = adapter("h100-sxm") * known["network"], own * known["link"]
    alone, mixed = _stages("h100-sxm", 8, 2), _stages("h100-sxm", 4, 4)
    assert alone.stage_link == pytest.approx(far)
    assert alone.stage_latency == pytest.approx(BEGINS * known["beyond"])
    assert 3 / mixed.stage_link == pytest.approx(2 / near + 1 / far)
    assert mixed.stage_latency == pytest.approx(BEGINS * (2 + known["beyond"]) / 3)


def test_every_hop_of_a_pipeline_takes_time() -> None:
    """Llama-3.1-8B on stages of one GPU: three vectors of a token in 16 bits, each with its beginning."""
    spec, load = load_model("llama-3.1-8b"), StepLoad(4.0, 0.0, 0.0, 0.0, 0.0, 4.0)
    service = service_of(spec, "h100-sxm", layout_of(spec, pp=4))
    rates, communication = service.rates, step_time(service.rank, load, service.rates).communication
    assert communication == pytest.approx(3 * (BEGINS + 4096 * 2 / rates.stage_link))


def test_a_hop_of_a_pipeline_carries_the_tokens_of_one_group() -> None:
    """Llama-3.1-8B on two stages, of one GPU or of two groups of attention: each GPU sends what its own sequences have,
    half of them at a time, to its next."""
    spec, load = load_model("llama-3.1-8b"), StepLoad(4.0, 0.0, 0.0, 0.0, 0.0, 4.0)
    for groups in (1, 2):
        service = service_of(spec, "h100-sxm", layout_of(spec, pp=2, attention_dp=groups))
        rates = service.rates
        communication = step_time(service.rank, load, rates).communication
        assert communication == pytest.approx(BEGINS + 2 * 4096 * 2 / rates.stage_link)


def test_copies_of_a_dense_model_have_nothing_to_say() -> None:
    """Groups of attention of a model without experts are replicas: no sums over them, and what replicas answer."""
    spec, load = load_model("llama-3.1-8b"), StepLoad(32.0, 0.0, 0.0, 0.0, 0.0, 32.0)
    one, groups, pairs = (
        service_of(spec, "h100-sxm", layout_of(spec, tp=tp, attention_dp=dp)) for tp, dp in ((1, 1), (1, 2), (2, 2))
    )
    assert step_time(groups.rank, load, groups.rates).communication == 0
    assert capacity_of(groups, 1024, 128) == pytest.approx(2 * capacity_of(one, 1024, 128), rel=1e-3)
    pair = service_of(spec, "h100-sxm", layout_of(spec, tp=2))
    communication = step_time(pair.rank, load, pair.rates).communication
    assert step_time(pairs.rank, load, pairs.rates).communication == pytest.approx(communication)
    assert communication > 0


def test_experts_hear_of_all_tokens_and_attention_of_its_own() -> None:
    """Qwen3-30B on two groups of two: in each of 48 layers a sum of a vector over two ranks of one group's tokens, and
    an exchange over all four of everyone's."""
    spec, load = load_model("qwen3-30b-a3b"), StepLoad(32.0, 0.0, 0.0, 0.0, 0.0, 32.0)
    service = service_of(spec, "h100-sxm", layout_of(spec, tp=2, attention_dp=2))
    rates, vector = service.rates, 32 * 2048 * 2
    sums = 48 * (rates.latency + vector / rates.link)
    exchanges = 48 * (rates.wide_latency + 2 * 3 / 4 * 2 * vector / rates.wide_link)
    assert step_time(service.rank, load, rates).communication == pytest.approx(sums + exchanges)
    assert rates.latency < rates.wide_latency


def test_what_holds_up_exchanges_over_fast_links_is_none_of_slower_ways() -> None:
    """Between two groups an exchange takes half of `gathering` more than a sum over fast links; through the host, as
    long as the sum."""
    for gpu, longer in (("rtx-pro-6000", 1.0), ("h100-sxm", (1 + constants()["gathering"]) / 2)):
        sums, exchanges = (_groups(gpu, *ranks) for ranks in ((2, 1), (1, 2)))
        assert exchanges.wide_latency == pytest.approx(longer * sums.latency)
        assert exchanges.wide_link == pytest.approx(sums.link / longer)
        assert sums.wide_link == sums.link


@pytest.mark.parametrize("gpu", ["h100-sxm", "h200", "b200", "rtx-pro-6000"])
def test_an_exchange_beyond_a_node_waits_for_the_slowest_part_of_its_way(gpu: str) -> None:
    """The cards carry no byte twice because exchanges over fast links take longer than sums."""
    near, sums, exchanges = (_groups(gpu, *ranks) for ranks in ((1, 8), (16, 1), (1, 16)))
    assert near.wide_link >= exchanges.wide_link
    assert sums.link >= exchanges.wide_link >= min(sums.link, near.wide_link * 0.9)
    assert exchanges.wide_latency == pytest.approx(max(sums.latency, near.wide_latency), rel=0.1)


def test_sixteen_with_fast_links_exchange_no_slower_than_without() -> None:
    fast, slow = (_groups(gpu, 1, 16) for gpu in ("h100-sxm", "h100-pcie"))
    assert fast.wide_link > slow.wide_link
    assert fast.wide_latency <= slow.wide_latency


def _groups(gpu: str, tp: int, groups: int) -> Rates:
    return rates_of(load_device(gpu), served_format("bf16"), "vllm", tp, False, groups=groups)


def test_stages_whose_links_are_not_known_are_refused() -> None:
    """A Mac Studio alone needs no link; two of them are not described, nor invented."""
    assert _stages("m2-ultra", 1, 1, "llama.cpp").stage_latency == 0
    with pytest.raises(Refused, match="--pp: expected 1 on m2-ultra, whose links are not known, found 2"):
        _stages("m2-ultra", 1, 2, "llama.cpp")


@pytest.mark.parametrize(("gpus", "wide", "near"), [(4, 4, True), (8, 8, False), (4, 1, True), (8, 1, False)])
def test_a_cache_goes_to_other_servers_by_what_lies_between(gpus: int, wide: int, near: bool) -> None:
    """DeepSeek-V3's latents, which each rank of tp holds whole: 61 layers of 576 numbers a token in 16 bits, over links
    in a node, over an adapter of 50 GB/s from node to node, at the share that either reaches."""
    spec, known, own = load_model("deepseek-v3"), constants(), load_device("h200").link_one_way
    assert own is not None
    one = service_of(spec, "h200", layout_of(spec, gpus=gpus, tp=wide))
    sent = 7000 * 61 * 576 * 2
    link = own * known["link"] if near else adapter("h200") * known["network"]
    assert one.handover(one, 7000) == pytest.approx(sent / link)
    assert link == pytest.approx(450e9 * known["link"] if near else 50e9 * known["network"])


def test_a_cache_waits_for_the_gpu_that_holds_more_of_it() -> None:
    spec = load_model("llama-3.1-8b")
    narrow, wide = (service_of(spec, "h100-sxm", layout_of(spec, tp=tp)) for tp in (1, 4))
    assert narrow.handover(wide, 1000) == wide.handover(narrow, 1000) == pytest.approx(4 * wide.handover(wide, 1000))


def test_the_document_says_what_sums_through_the_host_are_told() -> None:
    """Of Qwen3 32B on two RTX PRO 6000, beside what a log of them shows."""
    text = " ".join((Path(__file__).parents[2] / "docs" / "serving-measured.md").read_text().split())
    rates = rates_of(load_device("rtx-pro-6000"), served_format("bf16"), "vllm", 2, False)
    sums = [load_model("qwen3-32b").d_model * tokens * 2 for tokens in (64, 128, 2048)]
    small, middle, large = (rates.latency + size / rates.link for size in sums)
    told = f"a sum of {sums[0] / 1e6:.2f} MB takes 77 µs where {small * 1e6:.0f} are told"
    assert f"{told}, one of {sums[1] / 1e6:.1f} MB 180 ({middle * 1e6:.0f})" in text
    assert f"one of {sums[2] / 1e6:.0f} MB 1.15 ms ({large * 1e3:.2f})" in text
