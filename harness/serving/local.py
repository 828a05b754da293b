"""llama.cpp's benchmarks as others published them: tokens a second of prompts and of answers, on one machine."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from calc.errors import Refused
from calc.serve.constants import Constants
from calc.serve.formats import served_format
from calc.serve.layout import Layout
from calc.serve.rank import Rank, at, rank_of
from calc.serve.rates import rates_of
from calc.serve.step import Rates, StepLoad, step_time
from calc.serve.work import Work, work_of
from calc.spec import ModelSpec
from calc.spec.catalogue import load_device
from calc.spec.hardware import Device
from harness.serving.rows import number

GPUS = {
    "Strix Halo": "strix-halo",
    "GB10": "dgx-spark",
    "M2 Ultra": "m2-ultra",
    "M3 Max": "m3-max",
    "H100 PCIe": "h100-pcie",
    "A100 SXM": "a100-sxm-80gb",
    "L40S": "l40s",
    "RTX A6000": "rtx-a6000",
    "RTX 5000 Ada": "rtx-5000-ada",
    "RTX 4000 Ada": "rtx-4000-ada",
    "4090": "rtx-4090",
    "5090": "rtx-5090",
    "3070": "rtx-3070",
    "Framework Mainboard (128GB)": "strix-halo",
}
"""What a row's hardware has in its name -> a device of the catalogue."""
FAMILIES = {
    "llama-3-8b": "llama-3-8b",
    "llama-3-70b": "llama-3-70b",
    "llama 3.1:70b": "llama-3-70b",
    "llama 3.2:3b": "llama-3.2-3b",
    "llama-2-7b": "llama-2-7b",
    "gpt-oss-20b": "gpt-oss-20b",
    "gpt-oss-120b": "gpt-oss-120b",
    "gemma-3-4b": "gemma-3-4b",
    "gemma3-4b": "gemma-3-4b",
    "qwen2.5-coder-7b": "qwen2.5-7b",
    "qwen2-7b": "qwen2.5-7b",
    "qwen3moe-30b": "qwen3-30b-a3b",
    "qwen3.5-122b": "qwen3.5-122b-a10b",
    "qwen3.6-35b": "qwen3.6-35b-a3b",
    "gemma-4-26b": "gemma-4-26B-A4B",
    "gemma-4-31b": "gemma-4-31B",
    "glm-4.7-flash": "glm-4.7-flash",
    "minimax-m2": "minimax-m2.5",
    "ministral-3-14b": "ministral-3-14b",
}
"""What a row's model has in its name, its words joined by hyphens -> a model of one shape."""
FORMATS = {"f16": "gguf:16", "bf16": "gguf:16", "q4_k_m": "q4_k_m", "q4_0": "q4_0"}
DEFAULT = "q4_k_m"
"""What Ollama fetches where nobody says otherwise."""
NAMED = {"gpt-oss": "gguf-mxfp4", "q8_0": "q8_0", "qat": "q4_0", "glm-4.7-flash-gguf": "q8_0"}
"""Formats of files that their makers publish in one."""
STEP = 512
"""Tokens that one pass takes at most (n_ubatch), where a benchmark does not say otherwise."""
WIDE_STEP = 2048
"""What the benchmarks of 2025 say (-ub 2048)."""


@dataclass(frozen=True, slots=True)
class LocalRow:
    """One line of llama-bench, llama-batched-bench or Ollama. prompt: whether `tokens` of each of `batch` sequences are
    read, behind `depth` others; else they are made. step: tokens of one pass. devices: that share the layers."""

    source: str
    device: str
    devices: int
    family: str
    engine: str
    dtype: str
    prompt: bool
    tokens: int
    depth: int
    batch: int
    step: int
    per_second: float

    @property
    def system(self) -> str:
        """A device with a model: what is fitted or judged as a whole."""
        return f"{self.device} {self.family}"


def local_rows(file: Path) -> Iterator[LocalRow | Refused]:
    """The rows of the table; Refused for each on a device that the catalogue lacks or that does not say enough."""
    with file.open(newline="", encoding="utf-8-sig") as lines:
        for row in csv.DictReader(lines):
            try:
                yield _row(row)
            except Refused as refused:
                yield refused


def _row(row: dict[str, str]) -> LocalRow:
    device = _device(row["hardware"])
    model = row["model"].lower()
    family = next((name for part, name in FAMILIES.items() if part in "-".join(model.split()) or part in model), None)
    if family is None:
        raise Refused("model", "one of a known family", row["model"])
    if row["backend"] not in ("CUDA", "Metal", "MTL,BLAS", "GPU") and not row["backend"].startswith(("ROCm", "Vulkan")):
        raise Refused("backend", "a GPU's", row["backend"])
    prompt = "pp" in row["test"]
    counted = number(row["prompt_len" if prompt else "gen_len"])
    wide = row["test"].endswith("2048") or row["test"].startswith("batched") or "ub=2048" in row["notes"]
    return LocalRow(
        source=row["source_repo"].split(" ")[0],
        device=device,
        devices=int(row["n_devices"]),
        family=family,
        engine="llama.cpp-vulkan" if row["backend"].startswith("Vulkan") else "llama.cpp",
        dtype=_dtype(row, model),
        prompt=prompt,
        tokens=int(counted or 256),
        depth=int(number(row["depth"]) or 0),
        batch=int(row["batch"]),
        step=WIDE_STEP if wide else STEP,
        per_second=float(row["tok_s"]),
    )


def _device(hardware: str) -> str:
    """The catalogue's name. Errors: Refused for a device that it lacks, or another variant of one that it has."""
    for part, name in GPUS.items():
        if part in hardware and "GTX" not in hardware:
            return name
    raise Refused("hardware", "a device of the catalogue", hardware)


def _dtype(row: dict[str, str], model: str) -> str:
    """The format of the file: as its maker publishes it, by its size over its weights, or by its name."""
    named = next((form for part, form in NAMED.items() if part in "-".join(model.split())), None)
    size, params = number(row["size_gib"]), number(row["params_b"])
    if named is None and size and params and row["quant"].lower() not in FORMATS:
        return f"gguf:{size * 2**30 * 8 / (params * 1e9):.2f}"
    found = named or FORMATS.get(row["quant"].lower(), DEFAULT if not row["quant"] else None)
    if found is None:
        raise Refused("quant", "a format of known bits", row["quant"])
    return found


@dataclass(frozen=True, slots=True)
class LocalCase:
    """A row, described."""

    row: LocalRow
    device: Device
    work: Work
    rank: Rank

    @property
    def steps(self) -> int:
        """Passes that a prompt takes."""
        return -(-self.row.tokens * self.row.batch // self.row.step) if self.row.prompt else 1

    @property
    def load(self) -> StepLoad:
        """One of the passes, the mean of all: what a step takes is linear in attention."""
        row = self.row
        if not row.prompt:
            context = row.depth + row.tokens / 2
            cached, flops = (float(at(curve, context)) for curve in (self.rank.decode_bytes, self.rank.decode_flops))
            return StepLoad(row.batch, 0.0, row.batch * cached, row.batch * flops, 0.0, row.batch)
        behind, whole = (float(at(self.rank.prompt_flops, n)) for n in (row.depth, row.depth + row.tokens))
        total = row.tokens * row.batch
        return StepLoad(0.0, total / self.steps, 0.0, 0.0, (whole - behind) * row.batch / self.steps, row.batch)

    @property
    def overlap(self) -> float:
        """How much faster the passes of a prompt go over devices that share the layers: m of them through n stages
        take m + n - 1 times a stage; a sequence's next token waits for all stages."""
        m, n = self.steps, self.row.devices
        return m * n / (m + n - 1) if self.row.prompt else 1.0


def local_case(row: LocalRow, spec: ModelSpec) -> LocalCase:
    """A row as the product describes it. Errors: Refused for what cannot be."""
    work = work_of(spec)
    return LocalCase(row, load_device(row.device), work, rank_of(work, Layout(), served_format(row.dtype), "fp16"))


def local_columns(cases: Sequence[LocalCase]) -> tuple[Any, StepLoad]:
    """Ranks and loads, a column each."""
    import numpy as np

    names = [name for name in Rank.__dataclass_fields__ if not name.endswith(("decode_bytes", "decode_flops"))]
    names = [name for name in names if name not in ("prompt_flops", "cached_bytes")]
    ranks = SimpleNamespace(**{name: np.array([float(getattr(c.rank, name)) for c in cases]) for name in names})
    loads = [c.load for c in cases]
    return ranks, StepLoad(*(np.array(column, dtype=float) for column in zip(*loads, strict=True)))


def local_seconds(cases: Sequence[LocalCase], given: Constants, ready: tuple[Any, StepLoad] | None = None) -> Any:
    """Seconds of all passes of each case, of a token's pass for answers. given: numbers, or of each constant a column,
    which gives a row for each place in it."""
    import numpy as np

    ranks, loads = local_columns(cases) if ready is None else ready
    asked = [(c.row.device, c.row.dtype, c.row.engine, c.work.latent) for c in cases]
    devices = {c.row.device: c.device for c in cases}
    known = {
        key: rates_of(devices[key[0]], served_format(key[1]), key[2], 1, key[3], given) for key in dict.fromkeys(asked)
    }
    places = [list(known).index(key) for key in asked]
    rates = Rates(
        *(np.stack(np.broadcast_arrays(*column), axis=-1)[..., places] for column in zip(*known.values(), strict=True))
    )
    steps = np.array([c.steps / c.overlap for c in cases])
    return step_time(ranks, loads, rates).total * steps


def local_speeds(cases: Sequence[LocalCase], given: Constants, ready: tuple[Any, StepLoad] | None = None) -> Any:
    """Predicted over measured tokens a second."""
    import numpy as np

    seconds = local_seconds(cases, given, ready)
    tokens = np.array([c.row.batch * (c.row.tokens if c.row.prompt else 1) for c in cases])
    return tokens / seconds / np.array([c.row.per_second for c in cases])
