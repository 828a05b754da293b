"""NeMo 2: overrides of a recipe on the command line of `nemo llm pretrain`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from calc.errors import Refused
from calc.memory.stage_lengths import further_modules
from calc.plan.export.launch import (
    Launch,
    Read,
    Tool,
    checkpointed,
    granularity,
    modules_read,
    modules_written,
    one_of,
    recomputed,
    whole,
)
from calc.plan.export.megatron_experts import dispatcher, unread_dispatcher
from calc.plan.export.megatron_formats import OPTIMIZERS, check_scaling, narrowed, scaling
from calc.plan.export.megatron_stages import StageWords, read_stages, told
from calc.plan.launchers import launcher
from calc.spec.run.precision import GRADIENT_DTYPES

STRATEGY = "trainer.strategy"
SIZES = {
    f"{STRATEGY}.tensor_model_parallel_size": "tp",
    f"{STRATEGY}.pipeline_model_parallel_size": "pp",
    f"{STRATEGY}.context_parallel_size": "cp",
    f"{STRATEGY}.expert_model_parallel_size": "ep",
    "data.micro_batch_size": "batch",
    "data.seq_length": "seq",
}
PIECES = f"{STRATEGY}.expert_tensor_parallel_size"
VIRTUAL = f"{STRATEGY}.virtual_pipeline_model_parallel_size"
IN_STRATEGY = ("account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split")
STAGES = StageWords(
    *(f"{STRATEGY}.{name}" for name in IN_STRATEGY),
    first=f"{STRATEGY}.num_layers_in_first_pipeline_stage",
    last=f"{STRATEGY}.num_layers_in_last_pipeline_stage",
    layout=f"{STRATEGY}.pipeline_model_parallel_layout",
    further="model.config.mtp_num_layers",
    layouts_have_modules=False,
)
REPLACED = tuple(f"model.config.{name.removeprefix(f'{STRATEGY}.')}" for name in STAGES[:5])
"""The same of the model's own configuration, in whose place MegatronStrategy puts what it says, or its defaults."""
MODULES = "model.config.recompute_modules"
DISPATCHER, DEEPEP = "model.config.moe_token_dispatcher_type", "model.config.moe_enable_deepep"
NOT_DESCRIBED = {
    "model.config.cpu_offloading": "what it keeps on the host",
    "model.config.fine_grained_activation_offloading": "what it keeps on the host",
    "trainer.plugins.fp8_params": "what weights kept and gathered in fp8 take",
}
"""Setting -> what of it is not described."""
FP8 = "trainer.plugins.fp8"
SCALING = "trainer.plugins.fp8_recipe"
WIDE_GRADIENTS = "trainer.plugins.grad_reduce_in_fp32"
OPTIMIZER = "optim.config."
DISTRIBUTED = f"{OPTIMIZER}use_distributed_optimizer"
MOMENTS = tuple(f"{OPTIMIZER}{name}_dtype" for name in ("exp_avg", "exp_avg_sq"))
OTHERS = tuple(f"{OPTIMIZER}{name}_dtype" for name in ("main_grads", "main_params"))
AWARE = f"{OPTIMIZER}use_precision_aware_optimizer"
FSDP = f"{STRATEGY}.fsdp"
READ = (
    PIECES,
    DISPATCHER,
    DEEPEP,
    VIRTUAL,
    MODULES,
    FP8,
    SCALING,
    WIDE_GRADIENTS,
    DISTRIBUTED,
    AWARE,
    *MOMENTS,
    *OTHERS,
    FSDP,
    f"{STRATEGY}.sequence_parallel",
    f"{STRATEGY}.ddp.use_distributed_optimizer",
    f"{STRATEGY}.ddp.overlap_grad_reduce",
    f"{STRATEGY}.ddp.overlap_param_gather",
    "model.config.recompute_granularity",
    "model.config.recompute_method",
    "model.config.recompute_num_layers",
    "trainer.num_nodes",
    "trainer.devices",
    "data.global_batch_size",
)
"""Settings beside those that say sizes."""
TRUTH = {"True": True, "False": False}


def _settings(launch: Launch) -> Iterator[tuple[str, Any]]:
    run, spec = launch.run, launch.question.spec
    yield "trainer.num_nodes", launch.nodes
    yield "trainer.devices", launch.per_node
    yield from ((name, getattr(run, field)) for name, field in SIZES.items())
    yield PIECES, run.expert_tp
    if (sender := dispatcher(run)) is not None:
        yield DISPATCHER, sender
        yield DEEPEP, True
    yield VIRTUAL, run.interleave if run.interleave > 1 else None
    yield from told(spec, run, STAGES).settings(STAGES, further_modules(spec, run))
    yield f"{STRATEGY}.sequence_parallel", run.tp > 1 and run.divides_sequence
    yield DISTRIBUTED, run.zero > 0
    yield f"{STRATEGY}.ddp.use_distributed_optimizer", run.zero > 0
    yield f"{STRATEGY}.ddp.overlap_grad_reduce", run.zero > 0
    yield f"{STRATEGY}.ddp.overlap_param_gather", run.zero > 0
    yield "data.global_batch_size", launch.question.sequences
    yield FP8, "hybrid" if run.recipe == "fp8" else None
    if (how := scaling(run)) is not None:
        yield SCALING, how
    yield WIDE_GRADIENTS, run.precision.summed == "fp32"
    if run.checkpointing != "none" or run.recompute:
        yield "model.config.recompute_granularity", granularity(run)
    if (modules := modules_written(run)) is not None:
        yield MODULES, f"[{','.join(modules)}]"
    if run.checkpointing == "full":
        method, layers = recomputed(launch)
        yield "model.config.recompute_method", method
        yield "model.config.recompute_num_layers", layers


def _write(launch: Launch) -> str:
    said = (f"{name}={shlex.quote(str(value))}" for name, value in _settings(launch))
    return " \\\n  ".join(['nemo llm pretrain --factory "$RECIPE"', *said]) + "\n"


def _found(text: str, where: str) -> dict[str, str]:
    """Setting -> value, without those that say nothing. Errors: Refused for text that is no command."""
    try:
        words = shlex.split(text.replace("\\\n", " "), comments=True)
    except ValueError as error:
        raise Refused(where, f"a command ({error})", text[:40]) from None
    pairs = (word.partition("=") for word in words if "=" in word)
    return {name: value for name, _, value in pairs if value.lower() not in ("none", "null")}


def _read(text: str, where: str) -> Read:
    found = _found(text, where)
    if not any(name in found for name in SIZES):
        raise Refused(where, f"settings such as {STRATEGY}.tensor_model_parallel_size=8", text[:40])
    words: dict[str, Any] = {field: whole(found, name, where, 1) for name, field in SIZES.items() if field != "seq"}
    if (seq := whole(found, "data.seq_length", where)) is not None:
        words["seq"] = seq
    if (pieces := whole(found, PIECES, where)) not in (None, words["tp"]):
        words["expert_tp"] = pieces
    words["interleave"] = whole(found, VIRTUAL, where, 1)
    words["zero"] = _zero(found, where)
    if words["tp"] > 1 and not one_of(found, f"{STRATEGY}.sequence_parallel", TRUTH, "False", where):
        words["sequence_parallel"] = False
    known = {"None": "none", "selective": "selective", "full": "full"}
    words["checkpointing"] = one_of(found, "model.config.recompute_granularity", known, "None", where)
    if words["checkpointing"] == "selective":
        named = found.get(MODULES, "None").strip("[]()\"' ")
        modules = None if named == "None" else [each for each in re.split(r"[\"', ]+", named) if each]
        words |= modules_read(modules, f"{where}: {MODULES}")
    for name, what in NOT_DESCRIBED.items():
        if one_of(found, name, TRUTH, "False", where):
            raise Refused(f"{where}: {name}", f"False: {what} is not described", "True")
    words |= _formats(found, words["zero"], where)
    check_scaling(words, found.get(SCALING), f"{where}: {SCALING}")
    nodes, each = whole(found, "trainer.num_nodes", where), whole(found, "trainer.devices", where)
    gpus = None if nodes is None or each is None else nodes * each
    unread = tuple(sorted(found.keys() - set(NAMES))) + unread_dispatcher(found, DISPATCHER, where)
    layers = None
    if words["checkpointing"] == "full":
        layers = checkpointed(found, "model.config.recompute_method", "model.config.recompute_num_layers", where)
    sequences = whole(found, "data.global_batch_size", where)
    for name in REPLACED:
        if found.get(name, "False") != "False":
            its = name.replace("model.config", STRATEGY)
            raise Refused(f"{where}: {name}", f"{its}, which stands in its place", found[name])
    division = read_stages(
        found, STAGES, words["pp"], lambda name: one_of(found, name, TRUTH, "False", where), where, None
    )
    return Read(words, sequences, gpus, unread, division, layers)


def _zero(found: Mapping[str, str], where: str) -> int:
    """The optimizer's word stands in the place of that of gradients; recipes have it on. Errors: Refused for FSDP."""
    if FSDP in found:
        raise Refused(f"{where}: {FSDP}", "None: what it gathers and keeps is not described", found[FSDP])
    usual = found.get(f"{STRATEGY}.ddp.use_distributed_optimizer", "True")
    return int(one_of({DISTRIBUTED: usual, **found}, DISTRIBUTED, TRUTH, "True", where))


def _formats(found: Mapping[str, str], zero: int, where: str) -> dict[str, str]:
    """Recipe and optimizer. Errors: Refused for formats that none here has, and for moments in bf16 without what they
    ask for, a precision-aware optimizer that ranks divide."""
    for name in OTHERS:
        if _plain(found, name) != "fp32":
            raise Refused(f"{where}: {name}", "torch.float32: what others hold is not described", found[name])
    first, second = (_plain(found, name) for name in MOMENTS)
    if first != second or first not in OPTIMIZERS:
        expected = f"torch.float32 or torch.bfloat16, as {MOMENTS[1]}"
        raise Refused(f"{where}: {MOMENTS[0]}", expected, first if first == second else f"{first} and {second}")
    if first != "fp32" and not (zero and one_of(found, AWARE, TRUTH, "False", where)):
        raise Refused(f"{where}: {MOMENTS[0]}", f"torch.float32 without {AWARE} and {DISTRIBUTED}", found[MOMENTS[0]])
    fp8 = one_of(found, FP8, {"": False, "hybrid": True}, "", where)
    narrow = not one_of(found, WIDE_GRADIENTS, TRUTH, "True", where)
    moments = {} if first == "fp32" else {"optimizer": OPTIMIZERS[first]}
    return narrowed("fp8" if fp8 else "bf16-master", narrow) | moments


def _plain(found: Mapping[str, str], name: str) -> str:
    """A number format by its name here, or as it is said; fp32 where nothing is said."""
    said = found.get(name, "torch.float32").removeprefix("torch.")
    return {"float32": "fp32", "float": "fp32", "bfloat16": "bf16"}.get(said, said)


NAMES = (*SIZES, *STAGES[:-1], *REPLACED, *READ, *NOT_DESCRIBED)
NEMO = Tool(
    "nemo",
    "2.4.0",
    launcher("nemo").source,
    "megatron-core",
    "nemo",
    ("bf16-master", "bf16-zero", "fp8"),
    _write,
    _read,
    NAMES,
    optimizers=("adamw",),  # its command line takes no torch.dtype, of which moments in bf16 would be
    further=True,
    gradients=GRADIENT_DTYPES,
)
