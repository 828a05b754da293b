"""What engines run as one kernel, recurrences and experts, takes that kernel's measured time, and no more."""

from __future__ import annotations

from typing import Any

import pytest

import calc
from calc.time import predict
from calc.time.device.speed_of import speed_of

QWEN = "qwen3-next-80b-a3b"
"""36 layers of a gated delta net: 16 heads of queries and keys, 32 of values, all 128 wide."""
RULE = (".delta_net.chunk_scores", ".delta_net.solve", ".delta_net.state_read", ".delta_net.chunk_values")


def rows(model: str, gpu: str, ending: str, **asked: Any) -> list[Any]:
    found = predict(calc.load_model(model), gpu, **asked)
    return [row for row in found.kernels if row.kernel.path.endswith(ending) and row.kernel.direction == "forward"]


def gap(gpu: str) -> float:
    """Seconds between two kernels that were launched ahead."""
    launch = speed_of(gpu).launch
    assert launch is not None
    assert launch.graph is not None
    return launch.graph


@pytest.mark.parametrize("tp", [1, 2])
@pytest.mark.parametrize("gpu", ["h100-sxm", "b200"])
@pytest.mark.parametrize("execution", ["compiled", "graph"])
def test_a_prompt_takes_the_measured_kernels(gpu: str, execution: str, tp: int) -> None:
    asked = {"phase": "prefill", "seq": 4096, "batch": 2, "execution": execution, "tp": tp}
    speed = speed_of(gpu)
    for ending, table in ((".delta_net.state_update", speed.delta_rule), (".delta_net.conv", speed.convolution)):
        (row,) = rows(QWEN, gpu, ending, **asked)
        assert row.seconds == pytest.approx(
            36 * (table["bf16"].seconds(2, 4096, 32 / tp, 16 / tp, 128, 128) + gap(gpu))
        )
    within = [row for ending in RULE for row in rows(QWEN, gpu, ending, **asked)]
    assert sum(row.seconds for row in within) == 0


def test_a_token_takes_the_measured_kernels() -> None:
    asked = {"phase": "decode", "context": 4096, "batch": 16, "execution": "graph"}
    speed = speed_of("h200")
    for ending, table in ((".delta_net.recurrence", speed.delta_rule), (".delta_net.conv", speed.convolution)):
        (row,) = rows(QWEN, "h200", ending, **asked)
        assert row.seconds == pytest.approx(36 * (table["bf16.decode"].seconds(16, 1, 32, 16, 128, 128) + gap("h200")))


def test_the_convolution_of_mamba_2_is_the_measured_one() -> None:
    (row,) = rows("nemotron-3-super", "h100-sxm", ".conv", phase="prefill", seq=8192, execution="graph")
    model = speed_of("h100-sxm").convolution["bf16.mamba"]
    heads, groups = 128, 8  # of 64 and of 128 numbers, by the published config
    each = model.seconds(1, 8192, heads, groups, 128, 64) + gap("h100-sxm")
    assert row.seconds == pytest.approx(row.kernel.calls * each)


@pytest.mark.parametrize("asked", [{"phase": "training", "execution": "compiled"}, {"phase": "prefill"}])
def test_what_no_engine_runs_is_its_ops(asked: dict[str, Any]) -> None:
    """In training, and where PyTorch runs op by op."""
    within = [row for ending in RULE for row in rows(QWEN, "h100-sxm", ending, seq=2048, **asked)]
    assert len(within) == len(RULE)
    assert all(row.seconds > 0 for row in within)


def test_a_device_without_that_table_runs_its_ops() -> None:
    """An A100's tables hold the convolution, and no rule over prompts."""
    asked = {"phase": "prefill", "seq": 2048, "execution": "graph"}
    assert "bf16" not in speed_of("a100-sxm-80gb").delta_rule
    assert all(rows(QWEN, "a100-sxm-80gb", ending, **asked)[0].seconds > 0 for ending in RULE)


def test_experts_in_fp8_are_no_slower_than_kernels_of_either_scale() -> None:
    """An H100's for one scale a matrix take five times as long as those for one a block, and longer than bf16's."""
    spec, asked = calc.load_model("qwen3-30b-a3b"), {"phase": "decode", "batch": 16, "context": 2048}
    times = {dtype: predict(spec, "h100-sxm", execution="graph", dtype=dtype, **asked) for dtype in ("bf16", "fp8")}
    assert times["fp8"].seconds < times["bf16"].seconds
    tables = speed_of("h100-sxm").experts
    sizes = {"tokens": 16, "hidden": 2048, "inter": 768, "experts": 128, "top_k": 8}
    assert tables["fp8"].seconds(**sizes) > 3 * tables["fp8_block"].seconds(**sizes)
    products = sum(row.seconds for row in times["fp8"].kernels if row.kernel.routed is not None)
    assert products == pytest.approx(48 * tables["fp8_block"].seconds(**sizes), rel=0.01)
