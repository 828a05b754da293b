"""Rows that others measured: what they say of a plan, of lengths, and what no GPU can do."""

from __future__ import annotations

import csv
import statistics
from dataclasses import replace

import pytest

from calc.errors import Refused
from calc.serve.expert_kernels import expert_kernels, kind_of
from calc.serve.formats import served_format
from calc.serve.rates import rates_of
from calc.serve.running import Hold
from calc.serve.work import work_of
from calc.spec.catalogue import load_device
from calc.spec.run.engines import engine_named
from harness.serving.columns import case_of
from harness.serving.expert_kernels import measured_experts
from harness.serving.fitting import consistent
from harness.serving.launched import Launched, Sharing, launched
from harness.serving.possible import check_possible
from harness.serving.rows import OTHERS, ServedRow
from harness.serving.scoring import services, spread_of
from tests.reference import folder
from tests.serve.measured import inferencemax_rows, spec_of


def row_of(system: str) -> ServedRow:
    return next(row for row in inferencemax_rows()[0] if row.system == system and row.prefill is None)


def test_gpus_are_not_counted_twice() -> None:
    """`tp N, ep N` is N GPUs, though a table has it as N groups of N, or as N * N."""
    rows = [row for row in inferencemax_rows()[0] if row.prefill is None]
    assert all(row.gpus == row.layout["attention_dp"] * row.layout["tp"] * row.layout["pp"] <= 8 for row in rows)
    alone = {(row.family, row.dtype) for row in rows if row.layout["attention_dp"] > 1 and row.engine == "vllm"}
    assert alone == {("minimax", "nvfp4")}


def test_runs_that_are_the_same_to_the_last_digit_have_one_layout() -> None:
    """Kimi-K2.5 with attention of each GPU's own, as a table says, and without it."""
    layouts: dict[tuple[float | None, ...], set[tuple[int, ...]]] = {}
    for row in inferencemax_rows()[0]:
        if row.system == "b200 kimi vllm":
            seen = layouts.setdefault((row.input, row.output, row.concurrency, row.tpot, row.ttft), set())
            seen.add(tuple(row.layout.values()))
    assert len(layouts) > 20
    assert all(len(seen) == 1 for seen in layouts.values())


def test_rows_that_aiconfigurator_took_from_inferencex() -> None:
    """Those whose names say a gap to it: Kimi-K2.5's stand among InferenceX's own, to the last digit that they have."""
    with (folder() / "measured" / "inference" / "inferencemax.csv").open(newline="") as lines:
        kimi = [row for row in csv.DictReader(lines) if "kimi" in row["model"].lower()]

    def told(row: dict[str, str]) -> tuple[str | float, ...]:
        seconds = (round(float(row[name]), 1) for name in ("ttft_mean_ms", "tpot_mean_ms"))
        return (row["isl"], row["osl"], float(row["concurrency"]), *seconds)

    own = {told(row) for row in kimi if row["origin"].startswith("Inference")}
    taken = [row for row in kimi if OTHERS in row["row_id"]]
    assert len(taken) == 34
    assert sum(told(row) in own for row in taken) > 28


def test_how_engines_were_started() -> None:
    assert launched("vllm", "minimax", "b200", "fp8", (1024, 1024), 64.0) == Launched("fp8", 2048)
    assert launched("sglang", "deepseek", "b200", "fp8", (1024, 1024), 8.0).polls == 10
    assert launched("sglang", "deepseek", "b200", "fp8", (1024, 1024), 16.0).polls == 30
    assert launched("vllm", "llama-70b", "h100", "fp8", (1024, 1024), 16.0) == Launched()
    dates = ("2026-03-28", "2026-04-03")
    before, since = (launched("vllm", "minimax", "b200", "fp8", (1024, 1024), 64.0, measured=date) for date in dates)
    assert (before, since) == (Launched(), Launched("fp8", 2048))
    hybrid = ("sglang", "qwen3.5-397b", "b200", "fp8", (1024, 1024), 8.0)
    plans = (Sharing(8), Sharing(4, 1, 4), Sharing(4, 1, 1))  # the last since the end of April 2026
    assert [launched(*hybrid, sharing=plan).budget for plan in plans] == [32768, 32768, 16384]
    assert [launched(*hybrid, sharing=plan).polls for plan in plans] == [10, 10, 30]
    budgets = {
        (n, n_out): launched("sglang", "deepseek", "mi355x", "mxfp4", (9216 - n_out, n_out), n).budget
        for n in (32, 64)
        for n_out in (1024, 8192)
    }
    assert budgets == {(32, 1024): 196608, (64, 1024): 32768, (32, 8192): 196608, (64, 8192): 196608}
    held = {
        tp: launched("trtllm", "llama-70b", "h200", "fp8", (1024, 1024), 16.0, Sharing(tp)).hold for tp in (1, 4, 8)
    }
    assert held == {1: Hold(20, part=0.9), 4: Hold(20, part=0.9), 8: None}
    balanced = launched("trtllm", "gpt-oss", "b200", "mxfp4", (1024, 1024), 64.0, Sharing(1, 4)).hold
    assert balanced == Hold(49, prompts=4, further=10)
    rounds = [launched("sglang", "deepseek", "mi355x", "mxfp4", (1024, made), 4.0).rounds for made in (1024, 8192)]
    assert rounds == [50, 20]


def test_rounds_are_those_that_rows_tell() -> None:
    """Where a first round waits for compilers, the mean first token is above the median by that wait over the rounds:
    of MI355X's rows of DeepSeek-R1 in MXFP4, by 2 % of the 99th percentile, by 5 % where answers are long."""
    told: dict[int, list[float]] = {1024: [], 8192: []}
    with (folder() / "measured" / "inference" / "inferencemax.csv").open(newline="") as lines:
        for row in csv.DictReader(lines):
            if (row["gpu"], row["framework"], row["precision"], row["isl"]) == ("mi355x", "sglang", "fp4", "1024"):
                mean, median, p99 = (float(row[f"ttft_{name}_ms"]) for name in ("mean", "median", "p99"))
                told[int(row["osl"])].append((p99 - median) / (mean - median))
    for made, rounds in told.items():
        assert len(rounds) == 5
        assert statistics.median(rounds) == pytest.approx(50 if made == 1024 else 20, rel=0.1)


def test_series_that_cannot_be_of_one_server_fit_nothing() -> None:
    """A token that takes five times as long beside one other request as beside none, and less beside seven."""
    rows = [row for row in inferencemax_rows()[0] if row.system in ("gb200 qwen3-32b trtllm", "b200 llama-70b vllm")]
    cases = [case_of(row, spec_of(row.family)) for row in rows if row.dtype != "nvfp4" or row.gpu == "b200"]
    assert {case.row.system for case in consistent(cases)} == {"b200 llama-70b vllm"}


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
        name: rates_of(device, served_format(name), "vllm", 1, False).quantise for name in ("bf16", "fp8", "int4:g32")
    }
    assert quantise["fp8"] > 0
    assert quantise["bf16"] == quantise["int4:g32"] == 0
    # Queries, keys and values read one input; so do gate and up.
    work = work_of(spec_of("llama-8b"))
    assert work.mixer_products == work.channel_products == 2 * 32


def test_kernels_that_were_not_measured_are_those_of_the_nearest() -> None:
    assert expert_kernels("CDNA3", "sglang", "fp8") == expert_kernels("Hopper", "sglang", "fp8")
    assert kind_of("mxfp4", "widened") == "mxfp4-widened"
    assert kind_of("nvfp4", "fp4") == "nvfp4"
    alike = [expert_kernels("Hopper", engine, "int4-widened").start for engine in ("vllm", "sglang")]
    assert expert_kernels("Hopper", "trtllm", "int4-widened").start == pytest.approx(sum(alike) / 2)
    wide = [expert_kernels("Hopper", "vllm", kind).start for kind in ("int4-widened", "mxfp4-widened")]
    assert min(wide) / 2 < expert_kernels("Hopper", "vllm", "nvfp4-widened").start < 2 * max(wide)
    known = [expert_kernels("Blackwell", engine, "fp8").start for engine in ("vllm", "sglang")]
    assert expert_kernels("Blackwell", "trtllm", "fp8").start == pytest.approx(sum(known) / 2)


@pytest.mark.slow
def test_shipped_kernels_of_experts_are_those_of_the_tables() -> None:
    for (family, engine, running), own in measured_experts(folder() / "measured" / "kernels" / "tables").items():
        shipped = expert_kernels(family, engine, running)._asdict()
        assert own == pytest.approx(shipped, rel=0.01)


def test_more_gpus_of_one_plan_are_slower_in_rows_that_are_not_of_one_server() -> None:
    """As docs/serving-measured.md has it: Qwen3.5-397B in FP8 on B200, four requests of 1,024 tokens."""
    rows = [row for row in inferencemax_rows()[0] if row.system == "b200 qwen3.5-397b sglang" and row.dtype == "fp8"]
    small = [row for row in rows if row.concurrency == 4 and (row.input, row.output) == (1024, 1024)]
    found = {(row.layout["tp"], row.layout["ep"]): round(1e3 * (row.tpot or 0), 1) for row in small}
    assert found == {(4, 1): 6.3, (4, 4): 9.9, (8, 1): 8.3}


def test_first_rounds_that_waited_for_compilers() -> None:
    """DeepSeek-R1 under SGLang on B200: a mean first token of seconds beside others of half a second."""
    rows = [row for row in inferencemax_rows()[0] if row.system == "b200 deepseek sglang"]
    found = {which: [row.ttft for row in rows if row.ttft and row.compiled == which] for which in (False, True)}
    assert min(found[True]) > 3 * max(found[False])
    assert 5 < len(found[True]) < len(found[False])


def test_how_far_lengths_lie_apart() -> None:
    """Drawn as InferenceMAX draws them; those of texts counted afterwards far enough not to stay in step."""
    drawn, exact, counted = (row_of(f"{one} sglang") for one in ("b200 deepseek", "h100 qwen3-32b", "h200 llama-8b"))
    assert spread_of(drawn, engine_named("sglang")) == pytest.approx(0.2 / 0.9)
    assert spread_of(exact, engine_named("sglang")) == 0.0
    assert spread_of(exact, engine_named("vllm")) == engine_named("vllm").scatter
    assert spread_of(counted, engine_named("sglang")) == 1.0
