"""What a survey found: shares of a device's limits beside what is asked of them, and peaks of memory beside counts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.cases.survey_suite import CACHE, LONG, MOVED, SQUARE
from harness.measuring.limits import peak_flops
from harness.record import Environment, Run


@dataclass(frozen=True)
class Ratio:
    """A share of a limit. aim: what is asked for on a GPU, None: nothing is. value: what was measured, None with the
    reason in `why` where a case that it needs has no usable row."""

    name: str
    aim: float | None
    value: float | None
    why: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the aim was reached; None where there is none, or nothing was measured."""
        return None if self.aim is None or self.value is None else self.value >= self.aim


@dataclass(frozen=True)
class Peak:
    """The peak of memory of one training step, in bytes. reserved: what the allocator had taken, None on a CPU."""

    case: str
    counted: int
    measured: int
    reserved: int | None

    @property
    def error(self) -> float:
        """|counted - measured| / measured."""
        return abs(self.counted / self.measured - 1)


class _Rows:
    """The latest usable row of each case of one device."""

    def __init__(self, runs: Iterable[Run], environment: Environment) -> None:
        self.environment = environment
        self.tried: dict[str, Run] = {}
        for run in sorted(runs, key=lambda run: run.started):
            if run.environment.slug == environment.slug:
                self.tried[run.case] = run
        self.good = {name: run for name, run in self.tried.items() if run.status == "ok" and run.measurement}

    def fastest(self, kind: str, metric: str, **params: object) -> float | None:
        """The best rate of the cases of a kind with these parameters."""
        found = [
            run.metrics[metric]
            for run in self.good.values()
            if run.kind == kind and metric in run.metrics and params.items() <= run.params.items()
        ]
        return max(found, default=None)

    def missing(self, kind: str, **params: object) -> str:
        """Why there is none."""
        tried = [run for run in self.tried.values() if run.kind == kind and params.items() <= run.params.items()]
        return f"{tried[-1].status}: {tried[-1].reason}" if tried else "not measured yet"


def ratios(runs: Iterable[Run], environment: Environment) -> list[Ratio]:
    """Shares of the limits that a GPU's survey measures, by the latest rows of this device."""
    rows = _Rows(runs, environment)
    square = {"m": SQUARE, "n": SQUARE, "k": SQUARE, "dtype": "bf16", "layout": "nt"}
    prompt = {"seq": LONG, "d_head": 128, "direction": "forward", "dtype": "bf16"}
    large = {**CACHE, "dtype": "bf16"}
    product = rows.fastest("matmul", "flops_per_second", **square)
    memory = rows.fastest("pass", "bytes_per_second", elements=MOVED)
    peak = peak_flops(environment, "bf16")

    def share(name: str, aim: float | None, kind: str, metric: str, of: float | None, **params: object) -> Ratio:
        found = rows.fastest(kind, metric, **params)
        if found is None:
            return Ratio(name, aim, None, rows.missing(kind, **params))
        return Ratio(name, aim, found / of) if of else Ratio(name, aim, None, "its limit is not known")

    flops, moved, of = "flops_per_second", "bytes_per_second", "of the fastest pass"
    flash = rows.fastest("attention", flops, backend="sdpa_flash", **prompt)
    llama = {"model": "llama-3-8b", "batch": 1, "execution": "graph"}

    def prefill(name: str, aim: float | None, of: float | None, backend: str) -> Ratio:
        return share(name, aim, "attention", flops, of, backend=backend, **prompt)

    def training(name: str, aim: float, model: str) -> Ratio:
        return share(f"{name} training, MFU", aim, "training", "mfu", 1.0, model=model, execution="compiled")

    return [
        share(f"product of {SQUARE}³, of the peak", None, "matmul", flops, peak, **square),
        prefill("flash forward (cuDNN), of that product", 0.66, product, "sdpa_cudnn"),
        prefill("flash forward (SDPA), of that product", None, product, "sdpa_flash"),
        prefill("our Triton prefill, of SDPA flash", 0.9, flash, "triton"),
        share(f"decoding over 1 GiB, {of}", 0.93, "decode_attention", moved, memory, backend="triton_decode", **large),
        share(f"Llama 3 8B token with a graph, {of}", 0.75, "decode", moved, memory, **llama),
        training("GPT-2 124M", 0.40, "gpt2"),
        training("GPT 1.5B", 0.50, "gpt-1.5b"),
    ]


def peaks(runs: Iterable[Run], environment: Environment) -> list[Peak]:
    """Training steps of this device whose peak was both counted and measured, the worst first."""
    found = []
    for run in _Rows(runs, environment).good.values():
        counted = run.forecast.peak_bytes if run.forecast else None
        measured = run.measurement.peak_bytes if run.measurement else None
        if run.kind == "training" and counted and measured:
            reserved = run.measurement.reserved_bytes if run.measurement else None
            found.append(Peak(run.case, counted, measured, reserved))
    return sorted(found, key=lambda peak: -peak.error)


def allocator_reserve(found: Sequence[Peak]) -> float | None:
    """How much more an allocator takes than tensors do: the geometric mean over training steps; None on a CPU."""
    shares = [peak.reserved / peak.measured for peak in found if peak.reserved]
    return math.exp(sum(map(math.log, shares)) / len(shares)) if shares else None
