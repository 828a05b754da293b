"""A layer of routed experts as kernels were measured: where it begins, and what it reaches of a datasheet.

From the tables of kernels that calc/data/profiles are made from, in the stacks of the three engines.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from calc.errors import Refused
from calc.serve.expert_kernels import kind_of
from calc.serve.formats import served_format
from calc.serve.rank import ACTIVATION_BYTES
from calc.spec.catalogue import load_device

SYSTEMS = {"h100_sxm": "h100-sxm", "h200_sxm": "h200", "b200_sxm": "b200", "gb200": "gb200"}
"""Folder of a system's tables -> its device."""
FORMATS = {
    "bfloat16": "bf16",
    "fp8_block": "fp8",
    "nvfp4": "nvfp4",
    "w4a8_mxfp4_mxfp8": "mxfp4",
    "w4a16_mxfp4": "mxfp4",
    "int4_wo": "int4:g32",
}
"""What a table calls a format -> the product's; fp8 of models with experts has a scale for each block."""
UNGATED = "nongated"
"""In the name of kernels of experts with two matrices."""
WIDENED = ("w4a16_mxfp4", "int4_wo")
EVENNESS = 0.8
"""Of further tokens, those that choose experts for themselves; what serving constants begin with."""
LARGEST = 16384
"""Tokens above which no step goes."""
FEWEST = 2e7
"""Elements of a layer's experts below which caches hold them."""
BEGIN = {"start": 4e-5, "stream": 0.7, "compute": 0.3, "tile": 8.0, "passes": 4.0}
ENDS = {
    "start": (5e-6, 2e-4),
    "stream": (0.1, 0.95),
    "compute": (0.02, 0.95),
    "tile": (0.1, 128.0),
    "passes": (0.1, 30.0),
}
TOLERANCE = 0.1


Key = tuple[str, str, str]
"""(family, engine, kind of kernels)"""


def measured_experts(folder: Path) -> dict[Key, dict[str, float]]:
    """What `ExpertKernels` has, of the tables below a folder. Errors: Refused for a folder that lacks one."""
    groups: dict[Key, list[tuple[float, ...]]] = {}
    for system, name in SYSTEMS.items():
        if not (folder / system / "moe.csv.gz").is_file():
            raise Refused("TABLE", f"a folder with {system}/moe.csv.gz", str(folder))
        for key, row in _rows(folder / system / "moe.csv.gz", name):
            groups.setdefault(key, []).append(row)
    return {key: _fit(rows) for key, rows in sorted(groups.items())}


def expert_tables(found: Mapping[Key, Mapping[str, float]], source: str) -> str:
    """The kernels as the data file holds them."""
    lines = [f'source = "{source}"']
    for key, own in found.items():
        lines += ["", f"[{'.'.join(key)}]", *(f"{name} = {value:.3g}" for name, value in own.items())]
    return "\n".join([*lines, ""])


def _rows(file: Path, name: str) -> Iterator[tuple[Key, tuple[float, ...]]]:
    """Of each row its group; seconds at peak of a token's FLOPs, at the memory's rate of bytes of weights and of a
    token's row; rows of tokens, experts reached; and seconds measured."""
    device = load_device(name)
    family = "Hopper" if "Hopper" in device.architecture else "Blackwell"
    with gzip.open(file, "rt", newline="") as lines:
        for row in csv.DictReader(lines):
            if row["moe_dtype"] not in FORMATS or UNGATED in row["kernel_source"]:
                continue
            form = served_format(FORMATS[row["moe_dtype"]])
            running = "widened" if row["moe_dtype"] in WIDENED else form.computes(device)
            peak = float(device.known_peaks["bf16" if running == "widened" else running].value)
            memory = float(device.bandwidth.value)
            each, rows, reached, held = _work(row)
            seconds = float(row["latency"]) / 1e3
            if float(row["num_tokens"]) <= LARGEST and held > FEWEST and seconds > 0:
                key = (family, row["table"].split("/")[1], kind_of(form.of_kernels, running))
                passed = float(row["hidden_size"]) * ACTIVATION_BYTES / memory
                yield key, (2 * each / peak, each * reached * form.bits / 8 / memory, passed, rows, reached, seconds)


def _work(row: Mapping[str, str]) -> tuple[float, float, float, float]:
    """Elements of an expert on the rank, rows of tokens, experts that are reached, elements of all on the rank."""
    names = ("num_tokens", "topk", "num_experts", "moe_ep_size", "hidden_size", "inter_size", "moe_tp_size")
    tokens, top_k, experts, ep, hidden, inner, tp = (float(row[name]) for name in names)
    each = 3 * hidden * inner / tp
    reached = experts / ep * (1 - (1 - top_k / experts) ** (1 + (tokens - 1) * EVENNESS))
    return each, tokens * top_k / ep, reached, each * experts / ep


def _fit(found: list[tuple[float, ...]]) -> dict[str, float]:
    """Robust least squares, in logarithms, of start + (a^4 + b^4)^(1/4) + passes."""
    import numpy as np
    from scipy.optimize import least_squares

    computing, moving, passed, rows, reached, seconds = (np.array(column) for column in zip(*found, strict=True))

    def left(at: Any) -> Any:
        start, stream, compute, tile, passes = np.exp(at)
        products = computing * (rows + tile * reached) / compute
        return np.log(start + (products**4 + (moving / stream) ** 4) ** 0.25 + passes * passed * rows) - np.log(seconds)

    low, high = (np.log([ENDS[name][end] for name in BEGIN]) for end in (0, 1))
    begin = np.log(list(BEGIN.values()))
    found_at = least_squares(left, begin, loss="soft_l1", f_scale=TOLERANCE, bounds=(low, high))
    return dict(zip(BEGIN, map(float, np.exp(found_at.x)), strict=True))
