"""DeepSpeed: its JSON configuration."""

from __future__ import annotations

import json
from typing import Any

from calc.errors import Refused
from calc.plan.export.launch import Launch, Read, Tool
from calc.plan.export.settings import one_of, unread_within, whole
from calc.plan.launchers import launcher
from calc.reading.files import parse_json
from calc.spec.run.precision import GRADIENT_DTYPES

KNOWN = (
    "train_batch_size",
    "train_micro_batch_size_per_gpu",
    "gradient_accumulation_steps",
    "bf16",
    "zero_optimization",
    "activation_checkpointing",
    "optimizer",
    "communication_data_type",
    "data_types",
)
OPTIMIZERS = {"adamw": "AdamW", "adamw-foreach": "AdamW", "lion": "Lion"}
"""Optimizer -> its type, where DeepSpeed has one; torch_adam is PyTorch's own, with its temporaries."""
NARROW = ("bf16_master_weights_and_grads", "bf16_optimizer_states")
"""Of bf16: formats in which no recipe here has a copy of the weights and moments."""

DEFAULT_FORMAT = "bf16"
"""In which gradients are summed where nothing is said."""
ACCUMULATED_IN = "grad_accum_dtype"
"""What says in which micro-batches are summed."""
ZERO = ("stage", "overlap_comm", "contiguous_gradients", "reduce_scatter", "offload_optimizer", "offload_param")
CHECKPOINTS = ("partition_activations", "cpu_checkpointing")


def _write(launch: Launch) -> str:
    run = launch.run
    document: dict[str, Any] = {
        "train_batch_size": launch.question.sequences,
        "train_micro_batch_size_per_gpu": run.batch,
        "gradient_accumulation_steps": run.micro_batches_a_step,
        "bf16": {"enabled": True},
        "zero_optimization": {
            "stage": run.zero,
            "overlap_comm": True,
            "contiguous_gradients": True,
            "reduce_scatter": True,
        },
    }
    if (summed := run.precision.summed) != DEFAULT_FORMAT:
        document |= {"communication_data_type": summed, "data_types": {ACCUMULATED_IN: summed}}
    # Without a learning rate, which is the program's to say: DeepSpeed takes an optimizer that it is given before this.
    if "optimizer" in launch.question.words:
        params = {"params": {"torch_adam": True}} if run.optimizer == "adamw-foreach" else {}
        document["optimizer"] = {"type": OPTIMIZERS[run.usual_optimizer], **params}
    if run.checkpointing == "full":
        on_host = run.offload == "activations"
        document["activation_checkpointing"] = {"partition_activations": False, "cpu_checkpointing": on_host}
    return json.dumps(document, indent=2) + "\n"


def _read(text: str, where: str) -> Read:
    found = parse_json(text, where)
    if not isinstance(found, dict):
        raise Refused(where, "an object", found)
    zero, precise = found.get("zero_optimization", {}), found.get("bf16", {})
    if not isinstance(zero, dict) or not isinstance(precise, dict):
        raise Refused(where, "zero_optimization and bf16 as objects", "something else")
    if not precise.get("enabled"):
        raise Refused(f"{where}: bf16", "enabled: other formats are not described", precise)
    for name in NARROW:
        if precise.get(name):
            raise Refused(f"{where}: {name}", "false: other formats of weights and moments are not described", True)
    for name in ("offload_optimizer", "offload_param"):
        its = zero.get(name)
        if isinstance(its, dict) and its.get("device", "none") != "none":
            raise Refused(f"{where}: {name}", "none: what DeepSpeed keeps on the host is not described", its["device"])
    batch = whole(found, "train_micro_batch_size_per_gpu", where, 1)
    steps = whole(found, "gradient_accumulation_steps", where, 1)
    each = batch * steps
    words: dict[str, Any] = {
        "batch": batch,
        "micro_batches": steps,
        "zero": whole(zero, "stage", where, 0, least=0),
        "recipe": "bf16-zero",
    }
    words |= _checkpointing(found, where) | _optimizer(found, where) | _gradients(found, where)
    sequences = whole(found, "train_batch_size", where)
    if sequences is not None and sequences % each:
        raise Refused(
            f"{where}: train_batch_size", f"a multiple of micro-batch × accumulation steps = {each:,}", sequences
        )
    unread = (*(name for name in found if name not in KNOWN), *unread_within(found, "zero_optimization", ZERO))
    unread += unread_within(found, "activation_checkpointing", CHECKPOINTS)
    unread += unread_within(found, "data_types", (ACCUMULATED_IN,))
    unread += unread_within(found, "bf16", ("enabled", *NARROW))
    return Read(words, sequences, None if sequences is None else sequences // each, unread, each=each)


def _optimizer(found: dict[str, Any], where: str) -> dict[str, Any]:
    """What updates the weights, where the file says it. Errors: Refused for others than are described."""
    its = found.get("optimizer")
    if its is None:
        return {}
    if not isinstance(its, dict) or not isinstance(its.get("params", {}), dict):
        raise Refused(f"{where}: optimizer", "an object with a type", its)
    known = {"adam": "adamw", "adamw": "adamw", "lion": "lion"}
    name = one_of({"type": str(its.get("type")).lower()}, "type", known, "", f"{where}: optimizer")
    if name == "adamw" and its.get("params", {}).get("torch_adam"):
        name = "adamw-foreach"
    return {} if name == "adamw" else {"optimizer": name}


def _gradients(found: dict[str, Any], where: str) -> dict[str, str]:
    """The format in which gradients are summed, between ranks and over micro-batches. Errors: Refused where these are
    two, which is not described; which stages of ZeRO go with them is a rule of the stack (`calc.memory.conditions`)."""
    types = found.get("data_types", {})
    if not isinstance(types, dict):
        raise Refused(f"{where}: data_types", "an object", types)
    names = "communication_data_type", ACCUMULATED_IN
    said = (each.get(name) or DEFAULT_FORMAT for each, name in zip((found, types), names, strict=True))
    sent, kept = (str(each).lower() for each in said)
    if sent != kept or kept not in GRADIENT_DTYPES:
        both = f"{where}: communication_data_type and {ACCUMULATED_IN}"
        raise Refused(both, "fp32 or bf16, both", f"{sent} and {kept}")
    return {} if kept == DEFAULT_FORMAT else {"gradient_dtype": kept}


def _checkpointing(found: dict[str, Any], where: str) -> dict[str, Any]:
    """Layers' inputs alone are kept, on the host where that is said. Errors: Refused for inputs in parts."""
    its = found.get("activation_checkpointing")
    if its is None:
        return {"checkpointing": "none"}
    if not isinstance(its, dict):
        raise Refused(f"{where}: activation_checkpointing", "an object", its)
    if its.get("partition_activations"):
        raise Refused(f"{where}: partition_activations", "false: ranks that share inputs are not described", True)
    return {"checkpointing": "full"} | ({"offload": "activations"} if its.get("cpu_checkpointing") else {})


NAMES = (
    *KNOWN,
    *(f"zero_optimization.{name}" for name in ZERO),
    *(f"activation_checkpointing.{name}" for name in CHECKPOINTS),
)
DEEPSPEED = Tool(
    "deepspeed",
    "0.19.8",
    launcher("deepspeed").source,
    "deepspeed",
    "deepspeed",
    ("bf16-zero",),
    _write,
    _read,
    NAMES,
    tuple(OPTIMIZERS),
    ("seq", "optimizer"),
    gradients=(DEFAULT_FORMAT, "fp32"),
)
