"""MLPerf Inference's Offline results with their plan: everything queued at once, tokens a second and accelerator."""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from calc.serve.closed_form import capacity_of
from calc.serve.layout import layout_of
from calc.serve.service import service_of
from calc.spec import Mla, ModelSpec
from harness.serving.rows import number

LENGTHS = Path(__file__).with_name("datasets.toml")
GPUS = {
    "NVIDIA H200-SXM-141GB": "h200",
    "Virtualized NVIDIA H200-SXM-141GB": "h200",
    "NVIDIA B200-SXM-180GB": "b200",
    "NVIDIA B300-SXM-270GB": "b300",
    "NVIDIA GB200": "gb200",
    "NVIDIA GB300": "gb300",
    "NVIDIA RTX PRO 6000 Blackwell Server Edition": "rtx-pro-6000",
}
"""What results call an accelerator -> its name in the catalogue."""
DTYPES = {"fp4": "nvfp4", "fp8": "fp8"}


@dataclass(frozen=True, slots=True)
class OfflineRow:
    """One result. per_gpu: tokens of answers a second and accelerator. budget, running: of a step, and sequences."""

    round: str
    gpu: str
    model: str
    dtype: str
    layout: dict[str, int]
    input: float
    output: float
    budget: int
    running: int
    per_gpu: float


def offline(file: Path) -> Iterator[OfflineRow]:
    """The Offline rows that say their plan, of models whose prompts' lengths are known, on GPUs of the catalogue."""
    lengths = tomllib.loads(LENGTHS.read_text())
    with file.open(newline="", encoding="utf-8-sig") as lines:
        for row in csv.DictReader(lines):
            plan = number(row["tp"]) is not None and row["scenario"] == "Offline"
            if not plan or row["model"] not in lengths or row["accelerator"] not in GPUS:
                continue
            ranks = {name: int(number(row[name]) or 1) for name in ("tp", "pp", "ep")}
            yield OfflineRow(
                round=row["round"],
                gpu=GPUS[row["accelerator"]],
                model=row["model"],
                dtype=DTYPES[row["cfg_precision"]],
                layout=ranks,
                input=float(lengths[row["model"]]["input"]),
                output=float(row["tokens_per_sample_log"]),
                budget=int(float(row["max_num_tokens"])),
                running=int(float(row["max_batch"])),
                per_gpu=float(row["result_per_accel"]),
            )


def offline_ratio(row: OfflineRow, spec: ModelSpec) -> float | None:
    """Predicted over measured; None where the model does not fit as the product counts.

    Errors: Refused for a layout that the model cannot have.
    """
    layout = layout_of(spec, **_apart(row.layout, spec))
    service = service_of(spec, row.gpu, layout, "trtllm", row.dtype, "fp8", row.budget, row.running)
    most = capacity_of(service, row.input, row.output)
    return most * row.output / layout.gpus_each / row.per_gpu if most else None


def _apart(ranks: dict[str, int], spec: ModelSpec) -> dict[str, int]:
    """The layout of a plan's ranks: where keys and values are latents, which no heads divide, each GPU has attention of
    sequences of its own (TensorRT-LLM's enable_attention_dp), which the plan's columns do not say."""
    latent = any(isinstance(group.mixer, Mla) for group in spec.layers)
    return ranks | {"tp": 1, "attention_dp": ranks["tp"]} if latent else ranks
