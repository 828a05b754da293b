"""Steps and tokens whose times were published, and what is predicted for them."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from typing import NamedTuple

from calc.architectures.models import load_model
from calc.time import Prediction, predict
from tests.conventions.shapes import gpt, llama
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


def llm_foundry(family: str) -> Iterator[Case]:
    """Training with PyTorch's FSDP on one node of 8 GPUs, `family` being a100 or h100; products in bf16."""
    devices = {"a100_80gb": "a100-sxm-80gb", "a100_40gb": "a100-sxm-40gb", "h100_80gb": "h100-sxm"}
    for row in rows("training", "llm_foundry_throughput.csv"):
        if not row["gpu"].startswith(family) or row["n_gpus"] != "8" or row["precision"].endswith("fp8"):
            continue
        seq, accumulated = int(row["seq_len"]), int(row["grad_accum"])
        spec = gpt(
            int(row["cfg_d_model"]),
            int(row["cfg_n_layers"]),
            int(row["cfg_n_heads"]),
            int(row["cfg_vocab_size"]),
            max_seq_len=seq,
        )
        found = predict(
            spec,
            devices[row["gpu"]],
            phase="training",
            batch=int(row["micro_batch_size"]),
            seq=seq,
            recipe="bf16" if row["mp_mode"] == "PURE" else "bf16-fsdp",
            optimizer="adamw",
            execution="sdpa",
            checkpointing="full" if row["act_ckpt"] == "True" else "none",
            dp=8,
            zero=3,
            micro_batches=accumulated,
        )
        name = f"{row['model']} {seq} x {row['micro_batch_size']} {row['gpu']}"
        yield Case(name, int(row["global_batch_size"]) * seq / float(row["tokens_per_s"]), found)


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


def simumax() -> Iterator[Case]:
    """Training of a few layers of Llama 3 on B200s by Megatron-LM, sequences of 4,096 tokens but where told."""
    sizes = {"llama3_70b": (8192, 64, 28672), "llama3_405b": (16384, 128, 53248)}
    for row in rows("training", "simumax_b200_measured.csv"):
        size = next((name for name in sizes if row["case"].startswith(name)), None)
        degrees = {name: int(n) for name, n in re.findall(r"_(tp|pp|dp|cp|l|mbc|seq)(\d+)", row["case"])}
        if size is None or degrees.get("cp", 1) > 1:
            continue
        d_model, heads, d_ff = sizes[size]
        found = predict(
            llama(d_model, degrees["l"], heads, d_ff),
            "b200",
            phase="training",
            seq=4096,
            recipe="bf16-master",
            execution="compiled",
            **{name: degrees[name] for name in ("tp", "pp", "dp")},
            zero=1,
            micro_batches=degrees["mbc"],
        )
        yield Case(row["case"], float(row["real_iter_ms"]) / 1e3, found)


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
