"""A survey says what share of a limit was reached, why one is missing, and goes on where it was cut off."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calc.errors import Refused
from calc.spec.catalogue import load_device
from harness.cases.survey_suite import CACHE, LONG, SQUARE
from harness.cli.survey import seconds_of
from harness.record import Run
from harness.survey import allocator_reserve, peaks, ratios
from tests.harness.made import CPU, H100, forecast, measurement, run

PRODUCT = {"m": SQUARE, "n": SQUARE, "k": SQUARE, "dtype": "bf16", "layout": "nt"}
PROMPT = {"seq": LONG, "d_head": 128, "direction": "forward", "dtype": "bf16"}


def rated(kind: str, metric: str, rate: float, params: dict[str, Any], **more: Any) -> Run:
    name = f"{kind}/{sorted(params.items())}"
    return run(name, measured=1.0, kind=kind, params=params, metrics={metric: rate}, environment=H100, **more)


@given(rate=st.floats(1e13, 9e14), part=st.floats(0.1, 1.2), copied=st.floats(1e12, 3e12))
def test_a_share_is_one_rate_over_the_other(rate: float, part: float, copied: float) -> None:
    rows = [
        rated("matmul", "flops_per_second", rate, PRODUCT),
        rated("attention", "flops_per_second", part * rate, PROMPT | {"backend": "sdpa_cudnn"}),
        rated("pass", "bytes_per_second", copied, {"function": "copy", "elements": 2**28}),
        rated(
            "decode_attention",
            "bytes_per_second",
            part * copied,
            {**CACHE, "dtype": "bf16", "backend": "triton_decode"},
        ),
        rated("training", "mfu", 0.41, {"model": "gpt2", "execution": "compiled"}),
    ]
    found = {each.name: each for each in ratios(rows, H100)}
    peak = float(load_device("h100-sxm").peak("bf16"))
    assert found[f"product of {SQUARE}³, of the peak"].value == pytest.approx(rate / peak)
    cudnn = found["flash forward (cuDNN), of that product"]
    assert cudnn.value == pytest.approx(part)
    assert cudnn.met == (cudnn.value >= 0.66)
    assert found["decoding over 1 GiB, of the fastest pass"].value == pytest.approx(part)
    assert found["GPT-2 124M training, MFU"].met is True
    missing = found["GPT 1.5B training, MFU"]
    assert (missing.value, missing.met, missing.why) == (None, None, "not measured yet")


def test_a_case_that_failed_says_how_and_the_latest_row_counts() -> None:
    params = PROMPT | {"backend": "triton"}
    failed = rated("attention", "flops_per_second", 1e14, params, status="crashed", reason="wrong result")
    flash = rated("attention", "flops_per_second", 4e14, PROMPT | {"backend": "sdpa_flash"})
    name = "our Triton prefill, of SDPA flash"
    assert next(each for each in ratios([failed, flash], H100) if each.name == name).why == "crashed: wrong result"
    good = rated("attention", "flops_per_second", 3e14, params, started="2026-11-22T00:00:00Z")
    assert next(each for each in ratios([failed, flash, good], H100) if each.name == name).value == pytest.approx(0.75)
    assert all(each.value is None for each in ratios([failed, flash, good], CPU))


def test_peaks_are_held_to_counts() -> None:
    rows = [
        run(
            f"training/{i}",
            kind="training",
            environment=H100,
            forecast=forecast(peak_bytes=counted),
            measurement=measurement(peak_bytes=100, reserved_bytes=reserved),
        )
        for i, (counted, reserved) in enumerate([(100, 110), (90, 121), (104, 100)])
    ]
    found = peaks(rows, H100)
    assert [each.counted for each in found] == [90, 104, 100]
    assert found[0].error == pytest.approx(0.1)
    assert allocator_reserve(found) == pytest.approx((1.1 * 1.21) ** (1 / 3))
    assert allocator_reserve([]) is None


@pytest.mark.parametrize(("text", "seconds"), [("540", 540), ("540s", 540), ("9m", 540), ("1.5 min", 90)])
def test_budgets(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "9 hours", "-5s", "1s", "1e9", "nan"])
def test_a_budget_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(Refused, match="--budget: expected 30s to 1440m"):
        seconds_of(text)


@pytest.mark.slow
def test_a_survey_runs_here_and_the_next_goes_on(tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-m", "harness", "survey", "--device", "cpu", "--json", "--results", str(tmp_path)]

    def once() -> dict[str, Any]:
        # A busy machine profiles nothing in the seconds that a quiet one needs.
        for budget in ("30s", "90s", "270s"):
            done = subprocess.run([*command, "--budget", budget], capture_output=True, text=True, check=False)
            if done.returncode != 2 or "--profile-time" not in done.stderr:
                break
        assert done.returncode in (0, 1), done.stderr
        return json.loads(done.stdout)

    first = once()
    assert sum(first["measured"].values()) + first["left"] == 21
    lines = [json.loads(line) for path in tmp_path.glob("runs/*/*.jsonl") for line in path.read_text().splitlines()]
    good = [line for line in lines if line["status"] == "ok"]
    forecasts = {line["kind"] for line in good if line["forecast"]}
    assert len(lines) == sum(first["measured"].values())
    assert all(peak["counted"] == pytest.approx(peak["measured"], rel=0.05) for peak in first["peaks"])
    assert forecasts <= {line["kind"] for line in lines}
    second = once()
    assert second["known"] == len(good)
