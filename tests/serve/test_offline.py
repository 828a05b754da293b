"""MLPerf Inference's Offline results: a source that no constant was fitted to."""

from __future__ import annotations

from collections import defaultdict
from functools import cache

from calc.architectures.models import load_model
from harness.serving.mlperf import offline, offline_ratio
from harness.serving.scoring import errors_of
from tests.reference import ROOT, folder
from tests.serve.measured import spec_of

MODELS = {
    "llama3.1-405b": lambda: load_model("llama-3.1-405b"),
    "llama3.1-8b": lambda: spec_of("llama-8b"),
    "deepseek-r1": lambda: spec_of("deepseek"),
}


@cache
def ratios() -> dict[str, list[float]]:
    """Predicted over measured, by model and round."""
    found = defaultdict(list)
    for row in offline(folder() / "measured" / "inference" / "mlperf_inference.csv"):
        one = offline_ratio(row, MODELS[row.model]())
        if one is not None:
            found[f"{row.model}, {row.round}"].append(one)
    return dict(found)


def lines() -> str:
    """The table of docs/serving-measured.md."""
    rows = ["| MLPerf Offline | rows | median | mean | bias |", "|---|---:|---:|---:|---:|"]
    everything = [each for some in ratios().values() for each in some]
    for model, some in (*sorted(ratios().items()), ("all", everything)):
        errors = errors_of(some)
        rows.append(f"| {model} | {errors.rows} | {errors.median:.1%} | {errors.mean:.1%} | {errors.bias:+.1%} |")
    return "\n".join(rows)


def test_the_document_prints_how_wrong_offline_throughput_was() -> None:
    assert lines() in (ROOT / "docs" / "serving-measured.md").read_text()
    assert sum(map(len, ratios().values())) >= 30
