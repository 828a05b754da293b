"""A layer of routed experts as kernels were measured: where it begins, and what it reaches of a datasheet.

From the tables of kernels that calc/data/profiles are made from, in the stacks of the three engines.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from calc.serve.formats import served_format
from calc.spec.catalogue import load_device

SYSTEMS = {"h100_sxm": "h100-sxm", "h200_sxm": "h200", "b200_sxm": "b200", "gb200": "gb200"}
"""Folder of a system's tables -> its device."""
FORMATS = {
    "bfloat16": "bf16",
    "fp8": "fp8",
    "fp8_block": "fp8",
    "nvfp4": "nvfp4",
    "w4a8_mxfp4_mxfp8": "mxfp4",
    "w4a16_mxfp4": "mxfp4",
    "int4_wo": "int4",
}
"""What a table calls a format -> the product's."""
WIDENED = ("w4a16_mxfp4", "int4_wo")
EVENNESS = 0.8
"""Of further tokens, those that choose experts for themselves; what serving constants begin with."""
LARGEST = 16384
"""Tokens above which no step goes."""
FEWEST = 2e7
"""Elements of a layer's experts below which caches hold them."""
BEGIN = {"start": 4e-5, "stream": 0.7, "compute": 0.15}
ENDS = {"start": (5e-6, 2e-4), "stream": (0.1, 0.95), "compute": (0.02, 0.95)}
TOLERANCE = 0.1


Key = tuple[str, str, str]
"""(family, engine, format in which products run)"""


def measured_experts(folder: Path) -> dict[Key, dict[str, float]]:
    """start in seconds, stream and compute as shares of a datasheet, of the tables below a folder."""
    groups: dict[Key, list[tuple[float, ...]]] = {}
    for system, name in SYSTEMS.items():
        for key, row in _rows(folder / system / "moe.csv.gz", name):
            groups.setdefault(key, []).append(row)
    return {key: _fit(rows) for key, rows in sorted(groups.items())}


def _rows(file: Path, name: str) -> Iterator[tuple[Key, tuple[float, ...]]]:
    """Of each row its group, and seconds of FLOPs at peak and of bytes at the memory's rate beside those measured."""
    device = load_device(name)
    family = "Hopper" if "Hopper" in device.architecture else "Blackwell"
    with gzip.open(file, "rt", newline="") as lines:
        for row in csv.DictReader(lines):
            if row["moe_dtype"] not in FORMATS:
                continue
            form = served_format(FORMATS[row["moe_dtype"]])
            widened = row["moe_dtype"] in WIDENED
            running = "widened" if widened else form.computes(device)
            peak = float(device.known_peaks["bf16" if widened else running].value)
            flops, moved, held = _work(row, form.bits / 8)
            seconds = float(row["latency"]) / 1e3
            if float(row["num_tokens"]) <= LARGEST and held > FEWEST and seconds > 0:
                key = (family, row["table"].split("/")[1], running)
                yield key, (flops / peak, moved / float(device.bandwidth.value), seconds)


def _work(row: Mapping[str, str], width: float) -> tuple[float, float, float]:
    """FLOPs, bytes of the experts that are reached, elements of all on the rank."""
    names = ("num_tokens", "topk", "num_experts", "moe_ep_size", "hidden_size", "inter_size", "moe_tp_size")
    tokens, top_k, experts, ep, hidden, inner, tp = (float(row[name]) for name in names)
    each = 3 * hidden * inner / tp
    reached = experts / ep * (1 - (1 - top_k / experts) ** (1 + (tokens - 1) * EVENNESS))
    return 2 * each * tokens * top_k / ep, each * reached * width, each * experts / ep


def _fit(rows: list[tuple[float, ...]]) -> dict[str, float]:
    """Robust least squares of start + (a^4 + b^4)^(1/4) in logarithms."""
    import numpy as np
    from scipy.optimize import least_squares

    computing, moving, seconds = (np.array(column) for column in zip(*rows, strict=True))

    def left(at: Any) -> Any:
        start, stream, compute = np.exp(at)
        return np.log(start + ((computing / compute) ** 4 + (moving / stream) ** 4) ** 0.25) - np.log(seconds)

    low, high = (np.log([ENDS[name][end] for name in BEGIN]) for end in (0, 1))
    begin = np.log(list(BEGIN.values()))
    found = least_squares(left, begin, loss="soft_l1", f_scale=TOLERANCE, bounds=(low, high))
    return dict(zip(BEGIN, map(float, np.exp(found.x)), strict=True))
