"""Throughput with everything queued at once, as TensorRT-LLM's documentation tabulates it."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from calc.serve.closed_form import capacity_of
from calc.serve.layout import layout_of
from calc.serve.service import service_of
from calc.spec import ModelSpec
from harness.serving.rows import number

GPUS = {"H100": "h100-sxm", "H200": "h200", "B200": "b200", "GB200": "gb200", "RTXPro6000": "rtx-pro-6000"}
"""What the table calls a GPU -> its name in the catalogue."""

EXPERTS = re.compile(r"A\d+B|gpt-oss|DeepSeek|8x7B")
"""In the names of models with experts."""


@dataclass(frozen=True, slots=True)
class QueuedRow:
    """One line: tokens of answers a second and GPU."""

    gpu: str
    model: str
    dtype: str
    layout: dict[str, int]
    input: int
    output: int
    output_per_gpu: float


def queued(file: Path) -> Iterator[QueuedRow]:
    """The rows of releases from 1.0 on with everything queued, on GPUs of the catalogue."""
    with file.open(newline="", encoding="utf-8-sig") as lines:
        for row in csv.DictReader(lines):
            full = row["batch_size"].startswith("max") and row["metric"] == "output_tok_s_per_gpu"
            if not full or row["gpu"] not in GPUS:
                continue
            four = "mxfp4" if row["model"].startswith("gpt-oss") else "nvfp4"
            yield QueuedRow(
                gpu=GPUS[row["gpu"]],
                model=row["model"],
                dtype=four if row["precision"] == "FP4" or four == "mxfp4" else "fp8",
                layout={
                    "tp": int(number(row["tp"]) or 1),
                    "pp": int(number(row["pp"]) or 1),
                    "ep": int(number(row["ep"]) or _unsaid(row)),
                    "attention_dp": int(number(row["attn_dp"]) or 1),
                },
                input=int(row["isl"]),
                output=int(row["osl"]),
                output_per_gpu=float(row["value"]),
            )


def _unsaid(row: dict[str, str]) -> int:
    """Ranks of experts where the tables of 1.0 do not say: all that share attention, as those of later releases have
    it wherever there are experts."""
    return int(number(row["tp"]) or 1) if EXPERTS.search(row["model"]) else 1


def ratio(row: QueuedRow, spec: ModelSpec) -> float | None:
    """Predicted over measured; None where the model does not fit as the product counts.

    Errors: Refused for a layout that the model cannot have.
    """
    layout = layout_of(spec, **row.layout)
    service = service_of(spec, row.gpu, layout, "trtllm", row.dtype)
    most = capacity_of(service, float(row.input), float(row.output))
    return most * row.output / layout.gpus_each / row.output_per_gpu if most else None
