"""vLLM on H100 that one project measured beside six simulators, and what docs/serving-measured.md prints of it."""

from __future__ import annotations

from functools import cache
from statistics import median

from calc.architectures.models import load_model
from harness.serving.side_by_side import METRICS, SIMULATORS, MeasuredServer, measured_servers, simulated_server
from tests.reference import ROOT, folder
from tests.serve.test_local import OWN

MODELS = {
    "meta-llama/Llama-2-7b-hf": "llama-2-7b",
    "meta-llama/Llama-2-70b-hf": "llama-2-70b",
    "meta-llama/Llama-3.1-8B-Instruct": "llama-3.1-8b",
    "meta-llama/Llama-3.1-70B-Instruct": "llama-3.1-70b",
    "mistralai/Mixtral-8x7B-v0.1": "mixtral-8x7b",
    "mistralai/Mistral-Nemo-Instruct-2407": str(folder() / "truth" / "configs" / "Mistral-Nemo-12B.json"),
    "codellama/CodeLlama-34b-Instruct-hf": str(OWN / "codellama-34b.json"),
}


@cache
def answers() -> list[tuple[MeasuredServer, dict[str, float]]]:
    """Each experiment whose lengths and rates are printed, with what we predict of it."""
    file = folder() / "measured" / "inference" / "simulators_sidebyside.csv"
    return [(row, simulated_server(row, load_model(MODELS[row.model]))) for row in measured_servers(file)]


def lines() -> str:
    """The table of docs/serving-measured.md: medians of absolute errors of means, of each where it runs."""
    rows = ["| tool | experiments | e2e | first token | between tokens |", "|---|---:|---:|---:|---:|"]
    ours = [(row, found) for row, found in answers()]
    for name in SIMULATORS:
        theirs = [(row, row.theirs[name]) for row, _ in answers() if row.theirs.get(name)]
        if theirs:
            rows.append(_line(name, theirs))
            rows.append(_line(f"ours, where {name} runs", [one for one in ours if one[0].theirs.get(name)]))
    return "\n".join([*rows, _line("ours, all", ours)])


def _line(name: str, some: list[tuple[MeasuredServer, dict[str, float]]]) -> str:
    cells = []
    for metric in METRICS:
        wrong = [abs(found[metric] / row.measured[metric] - 1) for row, found in some if metric in found]
        cells.append(f"{median(wrong):.0%}" if wrong else "–")
    return f"| {name} | {len(some)} | {' | '.join(cells)} |"


def test_the_document_prints_simulators_side_by_side() -> None:
    assert lines() in (ROOT / "docs" / "serving-measured.md").read_text()
    assert len(answers()) >= 10
