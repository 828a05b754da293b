"""Megatron-Core: the flags of `pretrain_gpt.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from calc.errors import Refused
from calc.memory.stage_lengths import further_modules
from calc.plan.export.commands import command, options_of, torchrun, values_of
from calc.plan.export.launch import Launch, Read, Tool
from calc.plan.export.megatron_experts import dispatcher
from calc.plan.export.megatron_formats import OPTIMIZERS, FormatWords, Fp8Words, fp8_settings, read_formats, read_fp8
from calc.plan.export.megatron_plan import GRAPHS, PlanWords, granularity_read, read_plan
from calc.plan.export.megatron_recompute import granularity, modules_written, recomputed
from calc.plan.export.megatron_stages import StageWords, read_stages, stage_settings
from calc.plan.export.settings import one_of, whole
from calc.plan.launchers import launcher
from calc.spec.run import Run
from calc.spec.run.precision import GRADIENT_DTYPES

SIZES = {
    "--tensor-model-parallel-size": "tp",
    "--pipeline-model-parallel-size": "pp",
    "--context-parallel-size": "cp",
    "--expert-model-parallel-size": "ep",
    "--micro-batch-size": "batch",
    "--seq-length": "seq",
    "--num-virtual-stages-per-pipeline-rank": "interleave",
}
"""Flag -> field of a Run."""
STAGES = StageWords(
    embedding="--account-for-embedding-in-pipeline-split",
    loss="--account-for-loss-in-pipeline-split",
    first="--decoder-first-pipeline-num-layers",
    last="--decoder-last-pipeline-num-layers",
    layout="--pipeline-model-parallel-layout",
    further="--mtp-num-layers",
)
IN_PIECE = "--num-layers-per-virtual-pipeline-stage"
WORDS = PlanWords(
    sizes=SIZES,
    pieces="--expert-tensor-parallel-size",
    sequence_parallel="--sequence-parallel",
    granularity="--recompute-granularity",
    modules="--recompute-modules",
    method="--recompute-method",
    layers="--recompute-num-layers",
    dispatcher="--moe-token-dispatcher-type",
    scaling="--fp8-recipe",
    global_batch="--global-batch-size",
    nodes="--nnodes",
    per_node="--nproc-per-node",
    n_layers="--num-layers",
    width="--hidden-size",
    off="none",
    not_described={
        "--fine-grained-activation-offloading": "what it keeps on the host",
        "--cpu-offloading-weights": "what it keeps on the host",
        **dict.fromkeys(("--enable-cuda-graph", "--external-cuda-graph", "--cuda-graph-impl"), GRAPHS),
    },
)
FORMATS = FormatWords(
    aware="--use-precision-aware-optimizer",
    distributed="--use-distributed-optimizer",
    moments=("--exp-avg-dtype", "--exp-avg-sq-dtype"),
    gradients="--main-grads-dtype",
    weights="--main-params-dtype",
    alone=True,
    wide="fp32",
    narrow="bf16",
)
NARROW_GRADIENTS = "--grad-reduce-in-bf16"
WIDE_GRADIENTS = "--accumulate-allreduce-grads-in-fp32"
WAITING = "--cpu-offloading-num-layers"
GROUPED, DEEPEP = "--moe-grouped-gemm", "--moe-enable-deepep"
FP8 = Fp8Words(
    products="--fp8-format",
    scaling=WORDS.scaling,
    gathered=("--fp8-param-gather",),
    reused=("--reuse-grad-buf-for-mxfp8-param-ag",),
)
SHARDING = {"no_shard": 0, "optim": 1, "optim_grads": 2, "optim_grads_params": 3}


def _options(launch: Launch) -> Iterator[tuple[str, Any]]:
    run = launch.run
    spec = launch.question.spec
    stages = stage_settings(spec, run, STAGES)
    for flag, field in SIZES.items():
        if field != "interleave" or (run.interleave > 1 and stages.layout is None):
            yield flag, getattr(run, field)
    yield WORDS.pieces, run.expert_tp
    yield GROUPED, spec.has_experts
    yield WORDS.dispatcher, dispatcher(run)
    yield DEEPEP, dispatcher(run) is not None
    yield from stages.settings(STAGES, further_modules(spec, run))
    yield WORDS.global_batch, launch.question.sequences
    yield WORDS.sequence_parallel, run.tp > 1 and run.divides_sequence
    on_host = run.offload == "optimizer"
    yield from _formats(run)
    yield "--optimizer-cpu-offload", on_host
    yield "--optimizer-offload-fraction", run.offload_fraction if on_host else None
    yield "--overlap-cpu-optimizer-d2h-h2d", on_host
    yield WAITING, (run.offload_layers or spec.n_layers - 1) if run.offload == "activations" else None
    yield "--use-megatron-fsdp", run.zero == 3
    yield "--data-parallel-sharding-strategy", "optim_grads_params" if run.zero == 3 else None
    yield "--overlap-grad-reduce", run.zero > 0
    yield "--overlap-param-gather", run.zero > 0
    yield "--tp-comm-overlap", run.tp > 1 and run.divides_sequence
    yield "--bf16", True
    yield FP8.products, "hybrid" if run.recipe == "fp8" else None
    yield from fp8_settings(run, FP8)
    yield WORDS.granularity, granularity(run)
    yield WORDS.modules, modules_written(run)
    if run.checkpointing == "full":
        method, layers = recomputed(launch)
        yield WORDS.method, method
        yield WORDS.layers, layers
    yield "--use-flash-attn", True


def _formats(run: Run) -> Iterator[tuple[str, Any]]:
    """The flags of a run's formats; what stands on the host asks for the precision-aware optimizer too.

    Errors: Refused for narrow moments that each rank has whole: the precision-aware optimizer is a distributed one.
    """
    narrow = run.usual_optimizer == "adamw-bf16"
    if narrow and run.zero == 0 and run.dp * run.cp > 1:
        raise Refused("zero", "1 or more with moments in bf16, in Megatron-Core's flags", run.zero)
    yield FORMATS.distributed, run.zero > 0 or run.reads_as_kept or run.fp8_param_gather
    yield FORMATS.aware, run.reads_as_kept
    yield from ((flag, FORMATS.narrow if narrow else None) for flag in FORMATS.moments)
    yield NARROW_GRADIENTS, run.precision.summed == "bf16"


def _write(launch: Launch) -> str:
    return command(torchrun(launch, "pretrain_gpt.py"), _options(launch))


def _read(text: str, where: str) -> Read:
    found = options_of(text, where, SIZES)

    def on(name: str) -> bool:
        return found.get(name, WORDS.off) != WORDS.off

    own = {"zero": _zero(found, where), "checkpointing": granularity_read(found, WORDS.granularity, where)}
    if "--recompute-activations" in found:  # Megatron-Core sets the other by it, whatever that says.
        own["checkpointing"] = "selective"
    recipe = "fp8" if on(FP8.products) else "bf16-master"
    own |= read_formats(found, FORMATS, recipe, on(NARROW_GRADIENTS), on, on(FORMATS.distributed), where)
    if on(WIDE_GRADIENTS) and found.get(FORMATS.gradients, FORMATS.wide) != FORMATS.wide:
        raise Refused(
            f"{where}: {FORMATS.gradients}", f"{FORMATS.wide} beside {WIDE_GRADIENTS}", found[FORMATS.gradients]
        )
    if (kept := _offload(found, where)).get("offload") == "optimizer":
        own.pop("precision_aware", None)  # which that asks for by itself
    own |= kept
    own |= read_fp8(found, FP8, own, on, where)
    modules = values_of(text, WORDS.modules) if on(WORDS.modules) else None
    read = read_plan(found, WORDS, own, modules, on, where)
    return read._replace(
        unread=tuple(name for name in found if name not in NAMES) + read.unread,
        division=read_stages(found, STAGES, read.words["pp"], on, where, whole(found, IN_PIECE, where)),
        waiting=whole(found, WAITING, where, least=0) or None,
    )


RELATED = (
    *STAGES[:-1],
    *WORDS.names,
    FORMATS.aware,
    FORMATS.distributed,
    *FORMATS.moments,
    FORMATS.gradients,
    FORMATS.weights,
    WIDE_GRADIENTS,
    NARROW_GRADIENTS,
    IN_PIECE,
    GROUPED,
    DEEPEP,
    WAITING,
    FP8.products,
    *FP8.gathered,
    *FP8.reused,
    "--optimizer-cpu-offload",
    "--optimizer-offload-fraction",
    "--overlap-cpu-optimizer-d2h-h2d",
    "--use-megatron-fsdp",
    "--data-parallel-sharding-strategy",
    "--overlap-grad-reduce",
    "--overlap-param-gather",
    "--tp-comm-overlap",
    "--bf16",
    "--recompute-activations",
    "--use-flash-attn",
    "--rdzv-backend",
    "--rdzv-endpoint",
)
"""Other options that a plan is made of, or that say where it runs."""


def _zero(found: dict[str, str], where: str) -> int:
    if "--use-megatron-fsdp" in found:
        return one_of(found, "--data-parallel-sharding-strategy", SHARDING, "no_shard", where)
    return int(FORMATS.distributed in found)


def _offload(found: dict[str, str], where: str) -> dict[str, Any]:
    """What stands on the host. Errors: Refused for copies that wait for each other, whose time is another, for what is
    no part, and for activations there beside the optimizer."""
    waiting = whole(found, WAITING, where, least=0)
    if "--optimizer-cpu-offload" not in found:
        return {"offload": "activations"} if waiting else {}
    if waiting:
        raise Refused(f"{where}: {WAITING}", "none beside --optimizer-cpu-offload", waiting)
    for flag in (FORMATS.aware, "--overlap-cpu-optimizer-d2h-h2d"):
        if flag not in found:
            raise Refused(
                f"{where}: {flag}", "given beside --optimizer-cpu-offload: without it nothing is described", "none"
            )
    text = found.get("--optimizer-offload-fraction", "1")
    try:
        return {"offload": "optimizer", "offload_fraction": float(text)}
    except ValueError:
        raise Refused(f"{where}: --optimizer-offload-fraction", "a part above 0, up to 1", text) from None


NAMES = (*SIZES, *RELATED, *WORDS.not_described)
MEGATRON_CORE = Tool(
    "megatron-core",
    "core_r0.13.0",
    launcher("megatron-core").source,
    "megatron-core",
    "megatron-core",
    ("bf16-master", "bf16-zero", "fp8"),
    _write,
    _read,
    NAMES,
    tuple(OPTIMIZERS.values()),
    further=True,
    gradients=GRADIENT_DTYPES,
)
