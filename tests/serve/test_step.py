"""A step of an engine: bounds that hold whatever constants say, and columns that read as numbers do."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calc.architectures.models import load_model
from calc.ask.estimate import estimate
from calc.errors import Refused
from calc.serve.clock import StepClock
from calc.serve.constants import constants
from calc.serve.expert_kernels import expert_kernels
from calc.serve.formats import formats, served_format
from calc.serve.layout import Layout
from calc.serve.rates import rates_of, rests_on
from calc.serve.running import Piece
from calc.serve.service import service_of
from calc.serve.step import Rates, StepLoad, bound, step_time
from calc.spec.catalogue import device_names, load_device
from calc.spec.run import Run
from tests.serve.services import llama


def load(decodes: Any, prompt: Any, context: float = 1000.0) -> StepLoad:
    return StepLoad(decodes, prompt, decodes * context * 131_072, decodes * context * 5e5, prompt * 1e8, decodes + 1)


@given(st.floats(1, 1e15), st.floats(1, 1e12))
def test_two_bounds_meet_smoothly(flops: float, moved: float) -> None:
    either = max(flops / 1e12, moved / 1e9)
    assert either <= bound(flops, moved, 1e12, 1e9) * (1 + 1e-12)
    assert bound(flops, moved, 1e12, 1e9) <= either * 2**0.25 * (1 + 1e-12)


@given(st.integers(1, 512), st.integers(0, 8192))
def test_more_work_takes_longer(decodes: int, prompt: int) -> None:
    service = llama()
    less, more = (step_time(service.rank, load(decodes + n, prompt + n), service.rates).total for n in (0, 1))
    assert less < more


@given(
    st.integers(1, 2048),
    st.floats(1, 100_000),
    st.sampled_from(["vllm", "sglang", "llama.cpp"]),
    st.sampled_from([1, 4]),
)
def test_the_clock_s_short_way_is_the_step_s(decoding: int, context: float, engine: str, ranks: int) -> None:
    """Most steps of a simulation have no prompts: their time is told without asking for the whole step."""
    spec = load_model("qwen3-30b-a3b")
    service = service_of(spec, "h100-sxm", Layout(attention_dp=ranks, ep=ranks), engine, "bf16")
    clock = StepClock(service.rank, service.rates)
    own = max(decoding / ranks, 1.0)
    each = StepLoad(own, 0.0, own * clock.cache(context), own * clock.decoding(context), 0.0, own)
    assert clock.seconds(decoding, context) == pytest.approx(
        step_time(service.rank, each, service.rates).total, rel=1e-9
    )


def test_of_one_prompt_one_rank_of_attention_has_all_and_ranks_of_experts_their_share() -> None:
    """Its attention and dense matrices take what they take alone; experts and what goes to them take what a fourth of
    the prompt on each of four ranks takes."""
    spec = load_model("qwen3-30b-a3b")
    service = service_of(spec, "h100-sxm", Layout(attention_dp=4, ep=4), "vllm", "bf16")
    flops = 4096 * 1e8
    lone = step_time(service.rank, StepLoad(0.0, 4096.0, 0.0, 0.0, flops, 1.0), service.rates)
    split = step_time(service.rank, StepLoad(0.0, 1024.0, 0.0, 0.0, flops / 4, 1.0, readers=4.0), service.rates)
    every = step_time(service.rank, StepLoad(0.0, 4096.0, 0.0, 0.0, flops, 1.0, readers=4.0), service.rates)
    assert (lone.experts, lone.communication) == pytest.approx((split.experts, split.communication))
    assert (lone.matrices, lone.prompts) == pytest.approx((every.matrices, every.prompts))
    assert every.experts > 2 * lone.experts
    clock = StepClock(service.rank, service.rates)
    one, four = (clock.seconds(0, 0.0, [Piece(0, 4096, True)] * n) for n in (1, 4))
    assert one < four < 4 * one


def test_stages_do_not_shorten_the_way_of_one_request() -> None:
    """A lone prompt, or a lone answer, passes all layers one after the other, on however many GPUs they stand."""
    one, four = (llama(pp=n).server(4096).clock for n in (1, 4))
    for decoding, context in ((1, 100_000.0), (2, 100_000.0)):
        assert one.seconds(1, context) < four.seconds(decoding, context) < 1.02 * one.seconds(decoding, context)
    prompt = [Piece(0, 4096, True)]
    assert one.way(0, 0.0, prompt) == 0
    # The host lays a step, and each batch of it, once more where there is more than one stage.
    assert four.seconds(0, 0.0, prompt) + four.way(0, 0.0, prompt) == pytest.approx(
        one.seconds(0, 0.0, prompt), rel=0.05
    )


@given(st.integers(1, 9), st.integers(2, 8))
def test_pieces_follow_each_other_through_stages(pieces: int, stages: int) -> None:
    """m alike through n stages take m + n - 1 times what one of them takes in one, which is 1 / n of a pass; until the
    first stage is free for others, m."""
    service = llama(pp=stages)
    clock = StepClock(service.rank, service.rates._replace(step=0.0), budget=2048)
    alone = StepClock(llama().rank, llama().rates._replace(step=0.0)).seconds(0, 0.0, [Piece(0, 2048, True)])
    read = [Piece(0, 2048, True)] * pieces
    first = clock.seconds(0, 0.0, read)
    # Fewer pieces than stages are spread over all of them: weights are then read for less.
    assert 0.96 * pieces * alone / stages <= first <= (1.05 if pieces >= stages else 1.7) * pieces * alone / stages
    assert first + clock.way(0, 0.0, read) == pytest.approx((pieces + stages - 1) * alone / stages, rel=0.1)


def test_never_faster_than_the_datasheet() -> None:
    """Weights are read once, and tokens cost their products, at no more than the bandwidth and the peak."""
    service = llama()
    device, rank = load_device("h100-sxm"), service.rank
    held = rank.wide_bytes + rank.head_bytes
    assert step_time(rank, load(1, 0), service.rates).total > held / device.bandwidth.value
    compute = 2 * rank.wide * 8192 / device.peak("bf16")
    assert step_time(rank, load(0, 8192), service.rates).total > compute


def test_hosts_work_while_devices_do() -> None:
    """Scheduling of few sequences hides behind a step; steps of prompts wait for who launches their kernels."""
    service = llama()
    alone, launched = service.rates._replace(sequence=0.0, eager=0.0), service.rates._replace(sequence=0.0)
    seconds = step_time(service.rank, load(8, 0), alone).total
    assert step_time(service.rank, load(8, 0), service.rates).total < seconds + 8 * service.rates.sequence / 10
    serial = alone._replace(serial=service.rates.sequence)
    assert step_time(service.rank, load(8, 0), serial).total == pytest.approx(seconds + 8 * serial.serial)
    assert step_time(service.rank, load(8, 0), launched).total == pytest.approx(seconds)
    slow = launched._replace(eager=1e-3)
    assert step_time(service.rank, load(8, 16), slow).total > service.rank.kernels * 1e-3


def test_rows_of_experts_come_in_tiles_and_pass_memory() -> None:
    """A tile of rows for each expert that is reached, and a pass of each row whatever the ranks."""
    service = service_of(load_model("gpt-oss-120b"), "h100-sxm", Layout(tp=4), "vllm", "mxfp4")
    plain = service.rates._replace(tile=0.0, sorting=0.0)
    one, more = (step_time(service.rank, load(512, 0), r).experts for r in (plain, plain._replace(tile=64.0)))
    assert one < more
    rank, passed = service.rank, plain._replace(sorting=1e-12)
    sorted_rows = step_time(rank, load(512, 0), passed).experts - one
    assert sorted_rows == pytest.approx(512 * rank.top_k * rank.moe_layers * rank.message * 1e-12)


def test_what_no_server_was_measured_on_is_refused() -> None:
    for name in ("v100-sxm2-32gb", "tpu-v5e"):
        with pytest.raises(Refused, match="--gpu"):
            rates_of(load_device(name), served_format("bf16"), "vllm", 1, False)
    assert "datasheet" in rests_on(load_device("l40s"), "vllm")
    assert "datasheet" not in rests_on(load_device("h200"), "vllm")


OLD = ("p100", "tpu", "v100")
SERVED = ("Hopper", "Blackwell", "CDNA 3", "CDNA 4", "Ada", "Ampere")


@pytest.mark.parametrize("name", [name for name in device_names() if not name.startswith(OLD)])
@pytest.mark.parametrize("form", ["bf16", "fp8", "nvfp4", "int4:g128"])
def test_rates_stay_below_what_devices_have(name: str, form: str) -> None:
    device = load_device(name)
    if not device.architecture.startswith(SERVED):
        with pytest.raises(Refused, match="whose servers were measured"):
            rates_of(device, served_format(form), "vllm", 1, False)
        return
    rates = rates_of(device, served_format(form), "vllm", 1, False)
    peaks = device.known_peaks
    top = max(rate.value for key, rate in peaks.items() if key != "fp64")
    assert 0 < rates.narrow < top
    assert 0 < rates.grouped <= rates.narrow
    assert max(rates.streaming, rates.experts, rates.cache, rates.pass_rate) < device.bandwidth.value


def test_columns_are_numbers() -> None:
    service = llama(tp=2)
    rank, rates = service.rank, service.rates
    names = [name for name in rank.__dataclass_fields__ if np.ndim(getattr(rank, name)) == 0]
    columns = SimpleNamespace(**{name: np.full(3, float(getattr(rank, name))) for name in names})
    wide = Rates(*(np.full(3, value) for value in rates))
    decodes, prompts = np.array([1.0, 64.0, 256.0]), np.array([0.0, 512.0, 8192.0])
    column = step_time(columns, load(decodes, prompts), wide).total
    for i in range(3):
        assert column[i] == pytest.approx(step_time(rank, load(decodes[i], prompts[i]), rates).total, rel=1e-12)


def test_every_format_says_where_it_is_from() -> None:
    assert all(form.source and form.bits > 0 and form.compute for form in formats().values())
    assert served_format("int4:g128").bits == 4 + 16 / 128


def test_a_format_means_the_same_to_servers_and_to_memory() -> None:
    """All matrices of layers, or experts alone: held to the count of a quantized checkpoint, less norms and routers."""
    for name in ("llama-3.1-8b", "qwen3-30b-a3b"):
        spec = load_model(name)
        held = service_of(spec, "h200", Layout(), dtype="int4:g128").rank.held
        counted = estimate(spec, "weights", Run(dtype="int4:g128")).value
        assert 0.999 * counted < held < counted
    alone = service_of(spec, "h200", Layout(), dtype="int4:g128:experts").rank
    experts = 48 * 128 * 3 * 2048 * 768
    assert alone.expert_bytes * alone.local == experts * (4 + 16 / 128) / 8
    assert alone.dense_bytes == 0
    assert alone.wide_bytes == 2 * alone.wide


def test_a_format_without_scales_is_refused_with_those_that_engines_load() -> None:
    with pytest.raises(Refused, match=r"--dtype.*int4:gN \(with :experts, those alone\).*found int4$"):
        served_format("int4")


def test_kernels_of_experts_are_those_of_the_code_whatever_its_groups() -> None:
    device = load_device("h200")
    one, other = (rates_of(device, served_format(f"int4:g{n}"), "vllm", 1, False) for n in (32, 128))
    measured = expert_kernels("Hopper", "vllm", "int4-widened")
    assert one.experts == other.experts
    assert one.sorting == measured.passes / device.bandwidth.value


def test_constants_are_possible() -> None:
    found = constants()
    assert all(value > 0 for value in found.values())
    assert found["evenness"] <= 1
