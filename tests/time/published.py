"""Tokens whose times were published, and what is predicted for them."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import NamedTuple

from calc.architectures.models import load_model
from calc.time import Prediction, predict
from tests.reference import folder


class Case(NamedTuple):
    """A published time, in seconds, beside the predicted one."""

    name: str
    measured: float
    predicted: Prediction

    @property
    def ratio(self) -> float:
        """Measured over predicted."""
        return self.measured / self.predicted.seconds


def rows(*path: str) -> Iterator[dict[str, str]]:
    """The rows of a table of the reference data."""
    with folder().joinpath("measured", *path).open(newline="") as file:
        yield from csv.DictReader(file)


def gpt_fast() -> Iterator[Case]:
    """One token at batch 1 on A100s of 330 W, compiled, from CUDA graphs; halfway to 200 tokens after a prompt of 5."""
    models = {
        "Llama-2-7B": "llama-2-7b",
        "Llama-2-70B": "llama-2-70b",
        "Llama-3.1-8B": "llama-3-8b",
        "Llama-3.1-70B": "llama-3-70b",
        "Mixtral-8x7B": "mixtral-8x7b",
    }
    formats = {"bf16": "bf16", "int8": "int8:row", "int4-g32": "int4:g32"}
    seen = set()
    for row in rows("inference", "gpt_fast_decode.csv"):
        key = row["model"], row["quant"], row["n_gpus"]
        if "A100" not in row["gpu"] or row["model"] not in models or key in seen:
            continue
        seen.add(key)
        found = predict(
            load_model(models[row["model"]]),
            "a100-sxm-80gb",
            phase="decode",
            context=105,
            dtype=formats[row["quant"]],
            execution="graph",
            mode="inference",
            tp=int(row["n_gpus"]),
        )
        yield Case(" ".join((*key, "A100")), 1 / float(row["tok_s"]), found)


def serving() -> Iterator[Case]:
    """Time per output token of Llama 3.1 70B in fp8 behind TensorRT-LLM and vLLM, halfway through the answers."""
    devices = {"h100_sxm": "h100-sxm", "h200_sxm": "h200", "b200_sxm": "b200"}
    for row in rows("inference", "aic_silicon_e2e_ttft_tpot.csv"):
        dense = row["model_path"] == "meta-llama/Llama-3.1-70B" and row["gemm_quant_mode"] == "fp8"
        if not dense or row["mode"] != "agg" or row["system"] not in devices:
            continue
        found = predict(
            load_model("llama-3-70b"),
            devices[row["system"]],
            phase="decode",
            batch=int(float(row["batch_size"])),
            context=int(row["isl"]) + int(row["osl"]) // 2,
            dtype="fp8",
            execution="graph",
            mode="inference",
            tp=int(float(row["tp_size"])),
        )
        yield Case(row["id"], float(row["silicon_tpot_ms"]) / 1e3, found)
