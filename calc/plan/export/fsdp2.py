"""PyTorch's FSDP2, which has no file of its own: the lines of Python that spread a model, with the plan above them."""

from __future__ import annotations

import ast
from typing import Any

from calc.errors import Refused
from calc.plan.export.commands import torchrun
from calc.plan.export.launch import Launch, Read, Tool
from calc.plan.export.settings import one_of, whole
from calc.plan.launchers import launcher
from calc.spec.run.training import CHECKPOINTING, optimizer_names

TEMPLATE = '''"""Spreads a model as planned. Start the training program with: {start}"""

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
{imported}
GPUS = {gpus}
SEQUENCE = {seq}
MICRO_BATCH = {batch}
MICRO_BATCHES = {micro_batches}
RESHARD_AFTER_FORWARD = {reshard}
CHECKPOINTING = "{checkpointing}"
OPTIMIZER = "{optimizer}"
REDUCE = "{reduce}"


def spread(model, layers, device="cuda"):
    """Shard every layer, and then what is left of the model."""
    mesh = init_device_mesh(device, (GPUS,))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=getattr(torch, REDUCE))
    for layer in layers:{wrapped}
        fully_shard(layer, mesh=mesh, mp_policy=policy, reshard_after_forward=RESHARD_AFTER_FORWARD)
    return fully_shard(model, mesh=mesh, mp_policy=policy, reshard_after_forward=RESHARD_AFTER_FORWARD)
'''
TORCH_NAMES = {"fp32": "float32", "bf16": "bfloat16"}
WRAPPING = "from torch.distributed._composable import checkpoint\n"
SOURCE = launcher("fsdp2").source


def _write(launch: Launch) -> str:
    run, full = launch.run, launch.run.checkpointing == "full"
    return TEMPLATE.format(
        start=torchrun(launch, "train.py"),
        imported=WRAPPING if full else "",
        gpus=run.gpus,
        seq=run.seq,
        batch=run.batch,
        micro_batches=run.micro_batches_a_step,
        reshard=run.zero == 3,
        checkpointing=run.checkpointing,
        optimizer=run.usual_optimizer,
        reduce=TORCH_NAMES[run.precision.summed],
        wrapped="\n        checkpoint(layer)" if full else "",
    )


def _read(text: str, where: str) -> Read:
    found = _constants(text, where)
    for name in ("GPUS", "MICRO_BATCH", "MICRO_BATCHES"):
        if name not in found:
            raise Refused(where, f"a line {name} = N", "none")
    gpus, batch, steps = (whole(found, name, where, 1) for name in ("GPUS", "MICRO_BATCH", "MICRO_BATCHES"))
    words: dict[str, Any] = {"batch": batch, "micro_batches": steps, "recipe": "bf16-fsdp"}
    words |= {"zero": 3 if found.get("RESHARD_AFTER_FORWARD") is not False else 2}
    words["checkpointing"] = one_of(found, "CHECKPOINTING", {name: name for name in CHECKPOINTING}, "none", where)
    optimizers = {name: name for name in optimizer_names()}
    if (optimizer := one_of(found, "OPTIMIZER", optimizers, "adamw", where)) != "adamw":
        words["optimizer"] = optimizer
    known = {torch: name for name, torch in TORCH_NAMES.items()}
    if (summed := one_of(found, "REDUCE", known, "float32", where)) != "fp32":
        words["gradient_dtype"] = summed
    if "SEQUENCE" in found:
        words["seq"] = whole(found, "SEQUENCE", where)
    return Read(words, batch * steps * gpus, gpus, ())


def _constants(text: str, where: str) -> dict[str, Any]:
    """NAME = number, text or truth value at the top of a program, which is read and never run."""
    try:
        lines = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise Refused(where, "a Python program", text[:40]) from None
    return {
        line.targets[0].id: line.value.value
        for line in lines
        if isinstance(line, ast.Assign)
        and isinstance(line.targets[0], ast.Name)
        and isinstance(line.value, ast.Constant)
    }


FSDP2 = Tool(
    "fsdp2",
    "PyTorch 2.6",
    SOURCE,
    "fsdp2",
    "fsdp2-alone",
    ("bf16-fsdp",),
    _write,
    _read,
    (),
    gradients=tuple(TORCH_NAMES),
)
