"""Throughput with everything queued: a source that no constant was fitted to."""

from __future__ import annotations

from collections import defaultdict
from functools import cache

from calc.architectures.models import load_model
from calc.errors import Refused
from harness.serving.queued import queued, ratio
from harness.serving.scoring import errors_of
from tests.reference import ROOT, folder
from tests.serve.measured import spec_of

FAMILIES = {
    "Llama-3.3-70B": "llama-70b",
    "Llama-3.1-8B": "llama-8b",
    "Qwen3-235B-A22B": "qwen3-235b",
    "DeepSeek-R1-0528": "deepseek",
    "gpt-oss-120b": "gpt-oss",
}
PRESETS = {
    "Qwen3-30B-A3B": "qwen3-30b-a3b",
    "gpt-oss-20b": "gpt-oss-20b",
    "Llama-3.1-405B": "llama-3.1-405b",
    "Mixtral 8x7B": "mixtral-8x7b",
}


@cache
def ratios() -> dict[str, list[float]]:
    """Predicted over measured, by GPU."""
    found = defaultdict(list)
    for row in queued(folder() / "measured" / "inference" / "tensorrt_llm_1x.csv"):
        if row.model not in (*FAMILIES, *PRESETS):
            continue
        spec = spec_of(FAMILIES[row.model]) if row.model in FAMILIES else load_model(PRESETS[row.model])
        try:
            one = ratio(row, spec)
        except Refused:
            continue
        if one is not None:
            found[row.gpu].append(one)
    return dict(found)


def lines() -> str:
    """The table of docs/serving-measured.md."""
    rows = ["| GPU | rows | median | mean | bias |", "|---|---:|---:|---:|---:|"]
    everything = [each for some in ratios().values() for each in some]
    for gpu, some in (*sorted(ratios().items()), ("all", everything)):
        errors = errors_of(some)
        rows.append(f"| {gpu} | {errors.rows} | {errors.median:.1%} | {errors.mean:.1%} | {errors.bias:+.1%} |")
    return "\n".join(rows)


def test_the_document_prints_how_wrong_capacity_was() -> None:
    assert lines() in (ROOT / "docs" / "serving-measured.md").read_text()


def test_capacity_is_not_far_off_on_average() -> None:
    errors = errors_of(each for some in ratios().values() for each in some)
    assert errors.rows > 200
    assert errors.median < 0.2
    assert abs(errors.bias) < 0.1
