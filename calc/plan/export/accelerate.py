"""Hugging Face accelerate: the JSON file of `accelerate launch --config_file`, with FSDP2."""

from __future__ import annotations

import json

from calc.errors import Refused
from calc.plan.export.launch import Launch, Read, Tool
from calc.plan.export.settings import unread_within, whole
from calc.reading.files import parse_json

KNOWN = (
    "compute_environment",
    "distributed_type",
    "mixed_precision",
    "num_machines",
    "num_processes",
    "machine_rank",
    "main_training_function",
    "fsdp_config",
    "use_cpu",
    "debug",
)
FSDP = (
    "fsdp_version",
    "fsdp_reshard_after_forward",
    "fsdp_auto_wrap_policy",
    "fsdp_transformer_layer_cls_to_wrap",
    "fsdp_activation_checkpointing",
    "fsdp_cpu_ram_efficient_loading",
    "fsdp_state_dict_type",
    "fsdp_offload_params",
)
SOURCE = "https://huggingface.co/docs/accelerate/v1.15.0/en/usage_guides/fsdp: fsdp_version 2"


def _write(launch: Launch) -> str:
    run = launch.run
    fsdp = {
        "fsdp_version": 2,
        "fsdp_reshard_after_forward": run.zero == 3,
        "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
        "fsdp_activation_checkpointing": run.checkpointing == "full",
        "fsdp_cpu_ram_efficient_loading": True,
        "fsdp_state_dict_type": "SHARDED_STATE_DICT",
        "fsdp_offload_params": False,
    }
    document = {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": "FSDP",
        "mixed_precision": "bf16",
        "num_machines": launch.nodes,
        "num_processes": run.gpus,
        "machine_rank": 0,
        "main_training_function": "main",
        "use_cpu": False,
        "debug": False,
        "fsdp_config": fsdp,
    }
    return json.dumps(document, indent=2) + "\n"


def _read(text: str, where: str) -> Read:
    found = parse_json(text, where)
    fsdp = found.get("fsdp_config") if isinstance(found, dict) else None
    if not isinstance(found, dict) or not isinstance(fsdp, dict) or found.get("distributed_type") != "FSDP":
        raise Refused(where, "distributed_type FSDP and its fsdp_config", "something else")
    if fsdp.get("fsdp_version", 1) != 2:
        raise Refused(
            f"{where}: fsdp_version",
            "2: how FSDP of the first version divides is not described",
            fsdp.get("fsdp_version"),
        )
    if found.get("mixed_precision") != "bf16":
        raise Refused(f"{where}: mixed_precision", "bf16", found.get("mixed_precision"))
    if fsdp.get("fsdp_offload_params"):
        raise Refused(f"{where}: fsdp_offload_params", "false: what FSDP keeps on the host is not described", True)
    reshards = fsdp.get("fsdp_reshard_after_forward", True)
    checkpointing = "full" if fsdp.get("fsdp_activation_checkpointing") else "none"
    zero = 3 if reshards else 2
    words = {"zero": zero, "checkpointing": checkpointing, "recipe": "bf16-fsdp", "gradient_dtype": "bf16"}
    unread = (*(name for name in found if name not in KNOWN), *unread_within(found, "fsdp_config", FSDP))
    return Read(words, None, whole(found, "num_processes", where), unread)


NAMES = (*KNOWN, *(f"fsdp_config.{name}" for name in FSDP))
ACCELERATE = Tool(
    "accelerate",
    "1.15.0",
    SOURCE,
    "fsdp2",
    "fsdp2-alone",
    ("bf16-fsdp",),
    _write,
    _read,
    NAMES,
    leaves=("seq", "batch", "micro_batches", "optimizer"),
    gradients=("bf16",),  # its FSDP plugin sets reduce_dtype so (src/accelerate/utils/dataclasses.py)
)
