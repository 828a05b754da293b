"""What this project's own survey of a GPU measured, beside what the profile that is shipped for it predicts.

    python -m tests.time.surveyed

writes the tables of docs/prediction-measured.md. The profile is fitted to kernels of serving engines on other machines:
no constant of it saw a row. Some rules were written with rows in sight; the table says of which kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from statistics import median
from typing import Any

from calc.time.device.profile import shipped_profile
from harness.cli.selection import load
from harness.record import Forecast, Measurement, Run
from harness.store import RESULTS
from harness.suites import suite_cases
from tests.time.profile_tables import write

DEVICE, PROFILE = "nvidia-h200", "h200"


@dataclass(frozen=True)
class Kind:
    """Rows that are told in one line. seen: whether a rule was written with some of them in sight."""

    name: str
    of: Callable[[Run], bool]
    seen: bool = False


def _is(kind: str, **params: object) -> Callable[[Run], bool]:
    return lambda run: run.kind == kind and params.items() <= run.params.items()


def _attention(direction: str, *backends: str) -> Callable[[Run], bool]:
    return lambda run: (
        run.kind == "attention" and run.params["direction"] == direction and run.params["backend"] in backends
    )


KINDS = (
    Kind("products, bf16", _is("matmul")),
    Kind("products, fp8", _is("scaled_matmul")),
    Kind("products of experts, bf16", _is("grouped_matmul")),
    Kind("a copy of 512 MiB in a CUDA graph", _is("pass")),
    Kind("attention of prompts, PyTorch's flash and cuDNN", _attention("forward", "sdpa_flash", "sdpa_cudnn"), True),
    Kind("the same, our Triton kernel", _attention("forward", "triton"), True),
    Kind("attention backward, all three", _attention("backward", "sdpa_flash", "sdpa_cudnn", "triton"), True),
    Kind(
        "attention of a token, our Triton kernels and cuDNN",
        lambda run: (
            run.kind == "decode_attention"
            and run.params["backend"] in ("triton_decode", "triton_paged", "sdpa_cudnn", "mla_absorbed")
        ),
    ),
    Kind("the same, PyTorch's flash", _is("decode_attention", backend="sdpa_flash")),
    Kind("steps of training, compiled", _is("training", execution="compiled")),
    Kind("the same, not compiled", lambda run: run.kind == "training" and run.params["execution"] != "compiled", True),
    Kind("a token of a model, in a CUDA graph", _is("decode", execution="graph")),
    Kind(
        "a token, or a prompt, as Python asks for it",
        lambda run: run.kind in ("decode", "prefill") and run.params["execution"] != "graph",
        True,
    ),
)


@cache
def rows() -> tuple[Run, ...]:
    """What the survey measured and found good."""
    return tuple(run for run in load(RESULTS) if run.environment.slug == DEVICE and run.status == "ok")


@cache
def _cases() -> dict[str, Any]:
    """The suite's cases on that GPU, by their ids."""
    return {case.id: case for case in suite_cases("survey", rows()[0].environment)}


@cache
def pairs() -> tuple[tuple[Run, Forecast, Measurement], ...]:
    """Each row with what the shipped profile predicts of it today, where it predicts it."""
    profile = shipped_profile(PROFILE)
    assert profile is not None
    cases, found = _cases(), []
    for run in rows():
        forecast = cases[run.case].forecast(profile) if run.case in cases else None
        if forecast is not None and run.measurement is not None:
            found.append((run, forecast, run.measurement))
    return tuple(found)


def of_kind(kind: Kind) -> list[tuple[Forecast, Measurement]]:
    """The rows of a line."""
    return [(forecast, measured) for run, forecast, measured in pairs() if kind.of(run)]


def times() -> str:
    """How far times were off, by kind."""
    head = "| what | cases | median error | worst | measured / predicted | in the 90 % interval | rules saw it |"
    return "\n".join([head, "|---|---|---|---|---|---|---|", *map(_line, KINDS)])


def _line(kind: Kind) -> str:
    found = of_kind(kind)
    errors = [abs(forecast.seconds / measured.seconds - 1) for forecast, measured in found]
    ratio = median(measured.seconds / forecast.seconds for forecast, measured in found)
    inside = sum(forecast.low <= measured.seconds <= forecast.high for forecast, measured in found)
    numbers = f"{median(errors):.0%} | {max(errors):.0%} | {ratio:.2f} | {inside} of {len(found)}".replace("%", " %")
    return f"| {kind.name} | {len(found)} | {numbers} | {'yes' if kind.seen else 'no'} |"


def peaks() -> Iterator[tuple[Run, float, float]]:
    """(row, counted, measured) bytes of every training step whose peak was measured."""
    cases = _cases()
    for run in load(RESULTS):
        if run.environment.slug == DEVICE and run.kind == "training" and run.measurement and run.case in cases:
            measured = run.measurement.peak_bytes
            assert measured is not None
            yield run, cases[run.case].peak_bytes("cuda"), float(measured)


def memory() -> str:
    """Peaks of memory as counted and as measured."""
    lines = ["| training step | counted | measured | off |", "|---|---|---|---|"]
    for run, counted, measured in peaks():
        one = run.params
        words = f"{one['model']}, {one['batch']} × {one['seq']:,}, {one['dtype']}, {one['execution']}"
        kept = "" if one["checkpointing"] == "none" else f", checkpointing {one['checkpointing']}"
        off = f"{counted / measured - 1:+.1%}".replace("%", " %")
        lines.append(f"| {words}{kept} | {counted / 2**30:.2f} GiB | {measured / 2**30:.2f} GiB | {off} |")
    return "\n".join(lines)


SECTIONS = {"surveyed times": times, "surveyed memory": memory}

if __name__ == "__main__":
    write(SECTIONS)
