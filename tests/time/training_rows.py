"""Published steps of training: who measured them on what, and the plan that each ran."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from calc.architectures.models import load_model
from calc.spec import Lora, ModelSpec, Mtp
from calc.spec.stack import load_stack
from tests.conventions.shapes import gpt, llama
from tests.reference import folder
from tests.time.bridge_recipes import as_set, fp8_words, recipe_of
from tests.time.published import rows

SPLIT = Path(__file__).parent / "training_split.toml"
CLUSTERS = {
    "a100-sxm-80gb": "dgx-a100",
    "a100-sxm-40gb": "hgx-a100-40gb",
    "h100-sxm": "dgx-h100",
    "h200": "dgx-h200",
    "b200": "dgx-b200",
    "b300": "dgx-b300",
    "gb200": "gb200-nvl72",
    "gb300": "gb300-nvl72",
    "mi300x": "mi300x",
    "mi325x": "mi325x",
    "mi355x": "mi355x",
    "tpu-v5p": "tpu-v5p",
}
KINDS = ("dense", "experts", "nvfp4", "lora", "AMD and TPU")
_SPECS: dict[str, ModelSpec] = {}


class TrainingRow(NamedTuple):
    """A published step. kind: of KINDS. seconds: measured. words: of `predict`; checkpointing is absent where the
    source does not state it. sets: what its recipe sets otherwise than its stack's description (`as_set`)."""

    source: str
    system: str
    kind: str
    name: str
    spec: ModelSpec
    seconds: float
    words: dict[str, Any]
    sets: tuple[str, ...] = ()

    @property
    def fitted(self) -> bool:
        """Whether constants may have been fitted on it."""
        return self.system in split()["fit"].get(self.source, ())


@cache
def split() -> dict[str, dict[str, list[str]]]:
    """The tables of training_split.toml."""
    return tomllib.loads(SPLIT.read_text())


def training_rows() -> Iterator[TrainingRow]:
    """Every published step of the reference data of which a plan is known."""
    for read in SOURCES:
        yield from read()


def _row(
    source: str,
    system: str,
    kind: str,
    name: str,
    spec: ModelSpec,
    seconds: float,
    sets: tuple[str, ...] = (),
    **words: Any,
) -> TrainingRow:
    words = {name: word for name, word in words.items() if word is not None}
    words |= {"cluster": CLUSTERS[system.split(",")[0]], "stack": as_set(load_stack(words["stack"]), sets)}
    # What is worked out of a model is remembered by the object: rows of equal models share one.
    spec = _SPECS.setdefault(spec.model_dump_json(), spec)
    return TrainingRow(source, system, kind, name, spec, seconds, words, sets)


def _llm_foundry() -> Iterator[TrainingRow]:
    systems = {"a100_80gb": "a100-sxm-80gb", "a100_40gb": "a100-sxm-40gb", "h100_80gb": "h100-sxm"}
    for row in rows("training", "llm_foundry_throughput.csv"):
        seq, batch = int(row["seq_len"]), int(row["micro_batch_size"])
        sizes = (int(row[f"cfg_{name}"]) for name in ("d_model", "n_layers", "n_heads", "vocab_size"))
        plain = "fp8-fsdp" if row["precision"] == "amp_fp8" else "bf16-fsdp"
        yield _row(
            "llm-foundry",
            systems[row["gpu"]],
            "dense",
            f"{row['model']} {seq}x{batch} on {row['n_gpus']}",
            gpt(*sizes, max_seq_len=seq),
            int(row["global_batch_size"]) * seq / float(row["tokens_per_s"]),
            stack="llm-foundry",
            gpus=int(row["n_gpus"]),
            batch=batch,
            seq=seq,
            recipe="bf16" if row["mp_mode"] == "PURE" else plain,
            zero=3 if row["sharding"] == "FULL_SHARD" else 2,
            optimizer="adamw",
            micro_batches=int(row["grad_accum"]),
            checkpointing="full" if row["act_ckpt"] == "True" else "none",
        )


MLPERF_MODELS = {
    "gpt3-175b": "gpt3-175b",
    "llama2-70b-lora": "llama-2-70b",
    "llama3.1-8b": "llama-3.1-8b",
    "llama3.1-405b": "llama-3.1-405b",
}


def _mlperf() -> Iterator[TrainingRow]:
    marks = {"H100": "h100-sxm", "H200": "h200", "GB200": "gb200", "B200": "b200", "B300": "b300", "TPU": "tpu-v5p"}
    marks |= {name.upper(): name for name in ("mi300x", "mi325x", "mi355x")}
    for row in rows("training", "mlperf_training.csv"):
        system = next(name for mark, name in marks.items() if mark in row["accelerator"])
        spec, seq = load_model(MLPERF_MODELS[row["model"]]), int(row["seq_len"])
        lora = row["benchmark"] == "llama2_70b_lora"
        if lora:
            spec = spec.model_copy(update={"adapter": Lora(rank=16, targets=("q_proj", "k_proj", "v_proj", "o_proj"))})
        spec = spec.model_copy(update={"max_seq_len": max(seq, spec.max_seq_len or 0)})
        tpu, other = system.startswith("tpu"), system.startswith(("tpu", "mi"))
        kind = "AMD and TPU" if other else "lora" if lora else "nvfp4" if row["precision"] == "nvfp4" else "dense"
        sizes = {name: int(float(row[name])) for name in ("tp", "pp", "cp", "dp")}
        yield _row(
            "MLPerf",
            system,
            kind,
            f"{row['model']} {row['precision']} on {row['gpus_total']}, {row['submitter']} {row['round']}",
            spec,
            float(row["step_time_s"]),
            stack="maxtext" if tpu else "megatron-core",
            **sizes,
            interleave=int(float(row["vp"] or 1)) if sizes["pp"] > 1 else 1,
            batch=int(float(row["micro_batch_size"])),
            micro_batches=int(row["grad_accum"]),
            seq=seq,
            recipe="int8" if tpu else row["precision"],
            fp8_param_gather=(row["precision"] == "fp8" and not lora and row["round"] >= GATHERED) or None,
            zero=3 if tpu else 1,
            frozen="fp8" if lora else None,
            checkpointing="selective" if row["recompute"] else None,
        )


GATHERED = "v4.0"
"""The round from which on config_common.sh of pre-training in fp8 sets FP8_PARAMS or FP8_PARAM_GATHER, and AMD's
files of v5.1 too (mlcommons/training_results_v4.0 to v5.1). One scale a matrix, delayed or not, takes the same."""


BRIDGE_MODELS = {
    "LLAMA3.1_405B": "llama-3.1-405b",
    "LLAMA3_70B": "llama-3-70b",
    "LLAMA3_8B": "llama-3-8b",
    "DeepSeekV3": "deepseek-v3",
    "Qwen3_30B_a3B": "qwen3-30b-a3b",
    "Qwen3_235B_a22B": "qwen3-235b-a22b",
    "GPT OSS 120B": "gpt-oss-120b",
}
BRIDGE_CONFIGS = {"Kimi_K2": "Kimi-K2.5", "Nemotron_3_Super": "Nemotron-3-Super-120B-A12B"}
"""Models without a preset -> their config.json in the reference data, which has none of Nemotron 3 Nano and Ultra."""


def bridge_model(name: str) -> ModelSpec:
    if name in BRIDGE_MODELS:
        return load_model(BRIDGE_MODELS[name])
    read = load_model(str(folder() / "truth" / "configs" / f"{BRIDGE_CONFIGS[name]}.json"))
    read = read.model_copy(update={"vision": None})  # trained on text alone
    return read.model_copy(update={"mtp": _further(read)}) if name == "Nemotron_3_Super" else read


def _further(spec: ModelSpec) -> Mtp:
    """Nemotron 3 Super's modules for further tokens, of which its importer reads none: one of an attention and a block
    of experts (`*E` in its config.json) that runs twice (mtp_num_layers and mtp_use_repeated_layer of Megatron-Bridge's
    recipes/nemotronh/nemotron_3_super.py, v0.4.0 to v0.6.0). Here its weights are there twice."""
    layers = {group.name: group for group in spec.layers}
    attention, experts = layers["attention"].mixer, layers["moe"].channel
    assert attention is not None
    assert experts is not None
    return Mtp(count=2, mixer=attention, channel=experts, norm=layers["moe"].norm)


def _first(text: str) -> int:
    """The first of two plans that share a row: 2 (4)."""
    return int(float(re.match(r"[\d.]+", text)[0])) if re.match(r"\d", text) else 1  # type: ignore[index]


def _bridge() -> Iterator[TrainingRow]:
    for row in rows("training", "megatron_bridge_perf.csv"):
        name = row["model"].split(" (")[0]
        if name not in BRIDGE_MODELS and name not in BRIDGE_CONFIGS:
            continue
        spec, seq = bridge_model(name), int(row["seq_len"])
        spec = spec.model_copy(update={"max_seq_len": max(seq, spec.max_seq_len or 0)})
        if row["phase"].startswith("LoRA"):
            spec = spec.model_copy(update={"adapter": Lora(rank=16, targets=("q_proj", "k_proj", "v_proj", "o_proj"))})
        sizes = {size: _first(row[size]) for size in ("tp", "pp", "cp")}
        gpus = int(row["n_gpus"])
        dp = gpus // (sizes["tp"] * sizes["pp"] * sizes["cp"])
        batch, precision = _first(row["mbs"]), row["precision"] or "FP8"
        recipe = {"BF16": "bf16-master", "NVFP4": "nvfp4"}.get(precision, "fp8")
        moe = any(group.channel.kind == "moe" for group in spec.layers if group.channel is not None)
        kind = "lora" if spec.adapter else "experts" if moe else "nvfp4" if recipe == "nvfp4" else "dense"
        system = row["system"].removeprefix("DGX-").lower()
        said = recipe_of(name, system, row["precision"], row["release"])
        sets = () if said is None else said.sets
        newer = moe and "step in graphs" in sets
        formats = fp8_words(name, row["precision"]) if recipe == "fp8" and spec.adapter is None else {}
        yield _row(
            "Megatron-Bridge",
            system.replace("h100", "h100-sxm"),
            kind,
            f"{row['model']} {precision} on {gpus}, {row['release'][:8]}",
            spec,
            int(row["gbs"]) * seq / gpus / _first(row["tokens_per_s_per_gpu"]),
            stack="megatron-core-0.18" if newer else "megatron-core",
            sets=() if newer else sets,
            **sizes,
            gpus=gpus,
            ep=_first(row["ep"]) if moe else 1,
            expert_tp=1 if moe and sizes["tp"] > 1 else None,  # in its files at v0.5.0, for every model
            interleave=_first(row["vp"]) if sizes["pp"] > 1 else 1,
            batch=batch,
            micro_batches=int(row["gbs"]) // (batch * dp),
            seq=seq,
            recipe=recipe,
            **formats,
            gradient_dtype=None if said is None else said.gradients,
            zero=3 if _first(row["fsdp"]) > 1 else 1,
            mtp=True if spec.mtp is not None and "w/o MTP" not in row["model"] else None,
            checkpointing=None if said is None else "none",
            recompute=said.recompute if said is not None and said.recompute else None,
            offload="activations" if said is not None and said.waiting else None,
            offload_layers=None if said is None else said.waiting,
        )


def _torchtitan() -> Iterator[TrainingRow]:
    models = {"llama3.1-8b": "llama-3.1-8b", "llama3.1-70b": "llama-3.1-70b", "llama3.1-405b": "llama-3.1-405b"}
    for row in rows("training", "torchtitan_throughput.csv"):
        sizes = {name: int(n) for name, n in re.findall(r"(FSDP|TP|CP|PP)(\d+)", row["parallelism"])}
        pp, seq = sizes.get("PP", 1), int(row["seq_len"])
        spec = load_model(models[row["model"]])
        said = row["technique"].lower()
        stated = {"full": "full", "selective": "selective", "per-op SAC": "selective-op"}[row["act_ckpt"]]
        batch = int(row["local_batch"])
        gpus = int(row["n_gpus"])
        tokens = batch * sizes["FSDP"] * seq / gpus
        yield _row(
            "torchtitan",
            "h100-sxm, one node" if gpus == 8 else "h100-sxm, more nodes",
            "dense",
            f"{row['model']} {row['parallelism']} {row['technique']}",
            spec.model_copy(update={"max_seq_len": max(seq, spec.max_seq_len or 0)}),
            tokens / float(row["tokens_per_s_per_gpu"]),
            stack="torchtitan",
            execution="compiled" if "compile" in said or "asynctp" in row["table"].lower() else "sdpa",
            dp=sizes["FSDP"],
            tp=sizes.get("TP", 1),
            cp=sizes.get("CP", 1),
            pp=pp,
            zero=2 if pp > 1 else 3,  # its own default: layers stay gathered in a pipeline
            batch=batch // pp,
            micro_batches=pp,
            seq=seq,
            recipe="fp8-fsdp" if "float8" in said else "bf16-fsdp",
            checkpointing=stated,
        )


def _simumax() -> Iterator[TrainingRow]:
    sizes = {"llama3_70b": (8192, 64, 28672), "llama3_405b": (16384, 128, 53248)}
    for row in rows("training", "simumax_b200_measured.csv"):
        size = next((name for name in sizes if row["case"].startswith(name)), None)
        found = re.findall(r"_(tp|pp|dp|cp|l|mbc|seq)(\d+)", row["case"])
        degrees = {name: int(n) for name, n in found}
        if size is None:
            continue
        d_model, heads, d_ff = sizes[size]
        yield _row(
            "SimuMax",
            "b200",
            "dense",
            row["case"],
            llama(d_model, degrees["l"], heads, d_ff),
            float(row["real_iter_ms"]) / 1e3,
            stack="megatron-lm",
            **{name: degrees.get(name, 1) for name in ("tp", "pp", "dp", "cp")},
            seq=degrees.get("seq", 4096),
            recipe="bf16-master",
            zero=1,
            micro_batches=degrees["mbc"],
            checkpointing="none",
        )


def _narayanan() -> Iterator[TrainingRow]:
    for row in rows("training", "narayanan2021_table1.csv"):
        h, n, s, v = int(row["hidden"]), int(row["layers"]), int(row["seq_len"]), int(row["vocab"])
        batch, gpus, tp, pp = (int(row[name]) for name in ("batch", "n_gpus", "tp", "pp"))
        flops = 96 * batch * s * n * h**2 * (1 + s / (6 * h) + v / (16 * n * h))
        dp = gpus // (tp * pp)
        yield _row(
            "Narayanan 2021",
            "a100-sxm-80gb",
            "dense",
            f"{row['params_b']}B on {gpus}",
            gpt(h, n, int(row["heads"]), v),
            flops / gpus / float(row["tflops_per_gpu"]) / 1e12,
            stack="megatron-lm",
            execution="sdpa",
            tp=tp,
            pp=pp,
            dp=dp,
            seq=s,
            batch=1,
            micro_batches=batch // dp,
            recipe="fp16-mixed",
            sequence_parallel=False,
            checkpointing="full",
        )


def _korthikanti() -> Iterator[TrainingRow]:
    for row in rows("training", "korthikanti2022.csv"):
        spec = gpt(int(row["hidden"]), int(row["layers"]), int(row["heads"]), int(row["vocab"]))
        sizes = {name: int(row[name]) for name in ("tp", "pp", "interleave")}
        batch = int(row["micro_batch"])
        dp = int(row["n_gpus"]) // (sizes["tp"] * sizes["pp"])
        for column, how, stream in (
            ("iter_s_full_recompute", "full", False),
            ("iter_s_seqpar_selective", "selective", True),
        ):
            yield _row(
                "Korthikanti 2022",
                "a100-sxm-80gb",
                "dense",
                f"{row['model']} {how}",
                spec,
                float(row[column]),
                stack="megatron-lm",
                execution="sdpa",
                **sizes,
                dp=dp,
                batch=batch,
                micro_batches=int(row["global_batch"]) // (batch * dp),
                seq=int(row["seq_len"]),
                recipe="fp16-mixed",
                sequence_parallel=stream,
                checkpointing=how,
            )


def _llama() -> Iterator[TrainingRow]:
    """Table 4 of the paper; a layer a piece of a stage, embedding and head counting as one (section 3.3.2)."""
    for row in rows("training", "llama3_405b_table4.csv"):
        sizes = {name: int(row[name]) for name in ("tp", "cp", "pp", "dp")}
        spec, seq = load_model("llama-3.1-405b"), int(row["seq_len"])
        layers, width = 126, 16384
        flops = 6 * 405.85e9 + 6 * layers * width * seq  # causal: half of all pairs, as the paper's MFU has them
        tokens = float(row["check_tokens"])
        found = _row(
            "Llama 3 405B",
            "h100-sxm",
            "dense",
            f"{row['n_gpus']} GPUs, {seq} tokens",
            spec.model_copy(update={"max_seq_len": max(seq, spec.max_seq_len or 0)}),
            flops * tokens / int(row["n_gpus"]) / float(row["bf16_tflops_per_gpu"]) / 1e12,
            stack="llama-3",
            **sizes,
            interleave=8,
            seq=seq,
            zero=2,
            micro_batches=int(row["batch_per_dp"]),
            recipe="bf16-master",
            checkpointing="none",
        )
        found.words["cluster"] = "hgx-h100-roce"
        yield found


SOURCES: tuple[Callable[[], Iterator[TrainingRow]], ...] = (
    _llm_foundry,
    _mlperf,
    _bridge,
    _torchtitan,
    _simumax,
    _narayanan,
    _korthikanti,
    _llama,
)
