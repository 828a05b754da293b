"""NeMo 2: overrides of a recipe on the command line of `nemo llm pretrain`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from calc.errors import Refused
from calc.memory.stage_lengths import further_modules
from calc.plan.export.launch import Launch, Read, Tool
from calc.plan.export.megatron_experts import dispatcher
from calc.plan.export.megatron_formats import FormatWords, Fp8Words, fp8_settings, read_formats, read_fp8
from calc.plan.export.megatron_plan import GRAPHS, PlanWords, granularity_read, read_plan
from calc.plan.export.megatron_recompute import granularity, modules_written, recomputed
from calc.plan.export.megatron_stages import StageWords, read_stages, stage_settings
from calc.plan.export.settings import one_of
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
DISTRIBUTED = "optim.config.use_distributed_optimizer"
WORDS = PlanWords(
    sizes={**SIZES, VIRTUAL: "interleave"},
    pieces=f"{STRATEGY}.expert_tensor_parallel_size",
    sequence_parallel=f"{STRATEGY}.sequence_parallel",
    granularity="model.config.recompute_granularity",
    modules="model.config.recompute_modules",
    method="model.config.recompute_method",
    layers="model.config.recompute_num_layers",
    dispatcher="model.config.moe_token_dispatcher_type",
    scaling="trainer.plugins.fp8_recipe",
    global_batch="data.global_batch_size",
    nodes="trainer.num_nodes",
    per_node="trainer.devices",
    n_layers="model.config.num_layers",
    width="model.config.hidden_size",
    off="False",
    not_described={
        "model.config.cpu_offloading": "what it keeps on the host",
        "model.config.fine_grained_activation_offloading": "what it keeps on the host",
        **dict.fromkeys(("model.config.enable_cuda_graph", "model.config.external_cuda_graph"), GRAPHS),
    },
)
FORMATS = FormatWords(
    aware="optim.config.use_precision_aware_optimizer",
    distributed=DISTRIBUTED,
    moments=("optim.config.exp_avg_dtype", "optim.config.exp_avg_sq_dtype"),
    gradients="optim.config.main_grads_dtype",
    weights="optim.config.main_params_dtype",
    alone=False,
    wide="torch.float32",
    narrow="torch.bfloat16",
    also={"float32": "fp32", "float": "fp32", "torch.float": "fp32", "bfloat16": "bf16"},
)
DEEPEP = "model.config.moe_enable_deepep"
WIDE_GRADIENTS = "trainer.plugins.grad_reduce_in_fp32"
DDP = f"{STRATEGY}.ddp"
FP8 = Fp8Words(
    products="trainer.plugins.fp8",
    scaling=WORDS.scaling,
    gathered=("trainer.plugins.fp8_param_gather", "trainer.plugins.fp8_params"),
    reused=tuple(f"{part}.reuse_grad_buf_for_mxfp8_param_ag" for part in (DDP, "optim.config")),
)
FSDP = f"{STRATEGY}.fsdp"
READ = (
    *WORDS.names,
    DEEPEP,
    VIRTUAL,
    FP8.products,
    *FP8.gathered,
    *FP8.reused,
    WIDE_GRADIENTS,
    DISTRIBUTED,
    FORMATS.aware,
    *FORMATS.moments,
    FORMATS.gradients,
    FORMATS.weights,
    FSDP,
    f"{DDP}.use_distributed_optimizer",
    f"{DDP}.overlap_grad_reduce",
    f"{DDP}.overlap_param_gather",
)
"""Settings beside those that say sizes."""
PRODUCTS = {"": "bf16-master", "hybrid": "fp8", "e4m3": "fp8"}
TRUTH = {"True": True, "False": False}


def _settings(launch: Launch) -> Iterator[tuple[str, Any]]:
    run, spec = launch.run, launch.question.spec
    yield WORDS.nodes, launch.nodes
    yield WORDS.per_node, launch.per_node
    yield from ((name, getattr(run, field)) for name, field in SIZES.items())
    yield WORDS.pieces, run.expert_tp
    if (sender := dispatcher(run)) is not None:
        yield WORDS.dispatcher, sender
        yield DEEPEP, True
    yield VIRTUAL, run.interleave if run.interleave > 1 else None
    yield from stage_settings(spec, run, STAGES).settings(STAGES, further_modules(spec, run))
    yield WORDS.sequence_parallel, run.tp > 1 and run.divides_sequence
    distributed = run.zero > 0 or run.precision_aware or run.fp8_param_gather
    yield DISTRIBUTED, distributed
    yield f"{DDP}.use_distributed_optimizer", distributed
    if run.precision_aware:
        yield FORMATS.aware, True
    yield f"{DDP}.overlap_grad_reduce", run.zero > 0
    yield f"{DDP}.overlap_param_gather", run.zero > 0
    yield WORDS.global_batch, launch.question.sequences
    yield FP8.products, "hybrid" if run.recipe == "fp8" else None
    if run.recipe == "fp8":
        yield from ((name, value) for name, value in fp8_settings(run, FP8) if value is not None)
    yield WIDE_GRADIENTS, run.precision.summed == "fp32"
    if run.checkpointing != "none" or run.recompute:
        yield WORDS.granularity, granularity(run)
    if (modules := modules_written(run)) is not None:
        yield WORDS.modules, f"[{','.join(modules)}]"
    if run.checkpointing == "full":
        method, layers = recomputed(launch)
        yield WORDS.method, method
        yield WORDS.layers, layers


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

    def on(name: str, usual: str = "False") -> bool:
        return one_of(found, name, TRUTH, usual, where)

    zero, recipe = _zero(found, where), one_of(found, FP8.products, PRODUCTS, "", where)
    own = {"zero": zero, "checkpointing": granularity_read(found, WORDS.granularity, where)}
    own |= read_formats(found, FORMATS, recipe, not on(WIDE_GRADIENTS, "True"), on, zero > 0, where)
    own |= read_fp8(found, FP8, own, on, where)
    named = found.get(WORDS.modules, "None").strip("[]()\"' ")
    modules = None if named == "None" else [each for each in re.split(r"[\"', ]+", named) if each]
    read = read_plan(found, WORDS, own, modules, on, where)
    for name in REPLACED:
        if found.get(name, "False") != "False":
            its = name.replace("model.config", STRATEGY)
            raise Refused(f"{where}: {name}", f"{its}, which stands in its place", found[name])
    return read._replace(
        unread=tuple(sorted(found.keys() - set(NAMES))) + read.unread,
        division=read_stages(found, STAGES, read.words["pp"], on, where, None),
    )


def _zero(found: Mapping[str, str], where: str) -> int:
    """The optimizer's word stands in the place of that of gradients; recipes have it on. Errors: Refused for FSDP."""
    if FSDP in found:
        raise Refused(f"{where}: {FSDP}", "None: what it gathers and keeps is not described", found[FSDP])
    usual = found.get(f"{DDP}.use_distributed_optimizer", "True")
    return int(one_of({DISTRIBUTED: usual, **found}, DISTRIBUTED, TRUTH, "True", where))


NAMES = (*SIZES, *STAGES[:-1], *REPLACED, *READ, *WORDS.not_described)
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
