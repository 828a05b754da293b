"""Rows that others measured: what they say of a plan, of lengths, and what no GPU can do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from calc.errors import Refused
from calc.serve.expert_kernels import expert_kernels
from calc.serve.formats import served_format
from calc.serve.rates import rates_of
from calc.serve.work import work_of
from calc.spec.catalogue import load_device
from harness.serving.expert_kernels import measured_experts
from harness.serving.possible import check_possible
from harness.serving.rows import ServedRow
from harness.serving.scoring import services
from tests.reference import folder
from tests.serve.measured import inferencemax_rows, spec_of


def row_of(system: str) -> ServedRow:
    return next(row for row in inferencemax_rows()[0] if row.system == system and row.prefill is None)


def test_attention_of_each_gpu_is_not_counted_twice() -> None:
    """`tp N, ep N, dp-attn` is N GPUs, as fast as N GPUs, though a table has it as N groups of N."""
    alone = [row for row in inferencemax_rows()[0] if row.layout["attention_dp"] > 1 and row.prefill is None]
    once = [row for row in alone if row.layout["tp"] == 1]
    assert len(once) > 40
    assert all(row.gpus == row.layout["attention_dp"] * row.layout["tp"] <= 8 for row in once)


def test_lengths_are_exact_where_a_benchmark_says_tokens() -> None:
    row = row_of("h100 qwen3-32b sglang")
    assert row.exact
    assert not replace(row, spread=0.2).exact
    assert not replace(row, input=1000).exact


def test_what_no_gpu_can_do_is_no_measurement() -> None:
    row = row_of("h100 llama-70b vllm")
    service, reading = services(row, spec_of(row.family))
    check_possible(row, service, reading)
    assert row.tpot is not None
    assert row.ttft is not None
    for field, wrong in (
        ("tpot", replace(row, tpot=row.tpot / 20)),
        ("ttft", replace(row, input=4096, output=2, concurrency=64.0, ttft=0.001, tpot=0.1)),
    ):
        with pytest.raises(Refused, match=field):
            check_possible(wrong, service, reading)


def test_few_rows_ask_for_what_no_gpu_can_do() -> None:
    found = []
    for row in inferencemax_rows()[0]:
        if row.concurrency < 256:
            continue
        try:
            service, decode = services(row, spec_of(row.family))
        except Refused:
            continue
        try:
            check_possible(row, decode or service, decode and service)
        except Refused:
            found.append(row.system)
    assert set(found) <= {"h100 gpt-oss vllm", "gb200 qwen3-32b trtllm"}
    assert len(found) < 10


def test_inputs_are_narrowed_ahead_of_narrow_products() -> None:
    """In fp8 an input is narrowed by a kernel; where weights are widened, or have 16 bits, there is none."""
    device = load_device("h100-sxm")
    quantise = {
        name: rates_of(device, served_format(name), "vllm", 1, False).quantise for name in ("bf16", "fp8", "int4")
    }
    assert quantise["fp8"] > 0
    assert quantise["bf16"] == quantise["int4"] == 0
    # Queries, keys and values read one input; so do gate and up.
    work = work_of(spec_of("llama-8b"))
    assert work.products == 4 * 32


def test_kernels_that_were_not_measured_are_those_of_the_nearest() -> None:
    assert expert_kernels("CDNA3", "sglang", "fp8") == expert_kernels("Hopper", "sglang", "fp8")
    known = [expert_kernels("Blackwell", engine, "fp8").start for engine in ("vllm", "sglang")]
    assert expert_kernels("Blackwell", "trtllm", "fp8").start == pytest.approx(sum(known) / 2)


@pytest.mark.slow
def test_shipped_kernels_of_experts_are_those_of_the_tables() -> None:
    for (family, engine, running), own in measured_experts(folder() / "measured" / "kernels" / "tables").items():
        shipped = expert_kernels(family, engine, running)._asdict()
        assert own == pytest.approx(shipped, rel=0.01)
