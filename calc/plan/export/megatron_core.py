"""Megatron-Core: the flags of `pretrain_gpt.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from calc.errors import Refused
from calc.memory.stage_lengths import further_modules
from calc.plan.export.launch import (
    Launch,
    Read,
    Tool,
    checkpointed,
    command,
    granularity,
    modules_read,
    modules_written,
    one_of,
    options_of,
    recomputed,
    torchrun,
    values_of,
    whole,
)
from calc.plan.export.megatron_experts import dispatcher, unread_dispatcher
from calc.plan.export.megatron_formats import (
    AWARE,
    FORMATS,
    OPTIMIZERS,
    check_scaling,
    format_options,
    read_formats,
    scaling,
)
from calc.plan.export.megatron_stages import StageWords, read_stages, told
from calc.plan.launchers import launcher
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
PIECES = "--expert-tensor-parallel-size"
WAITING = "--cpu-offloading-num-layers"
MODULES = "--recompute-modules"
GROUPED, DISPATCHER, DEEPEP = "--moe-grouped-gemm", "--moe-token-dispatcher-type", "--moe-enable-deepep"
SCALING = "--fp8-recipe"
NOT_DESCRIBED = {
    "--fine-grained-activation-offloading": "what it keeps on the host",
    "--cpu-offloading-weights": "what it keeps on the host",
    "--fp8-param-gather": "what weights kept and gathered in fp8 take",
}
"""Flag -> what of it is not described."""
SHARDING = {"no_shard": 0, "optim": 1, "optim_grads": 2, "optim_grads_params": 3}
RECOMPUTE = {"": "none", "selective": "selective", "full": "full"}


def _options(launch: Launch) -> Iterator[tuple[str, Any]]:
    run = launch.run
    spec = launch.question.spec
    stages = told(spec, run, STAGES)
    for flag, field in SIZES.items():
        if field != "interleave" or (run.interleave > 1 and stages.layout is None):
            yield flag, getattr(run, field)
    yield PIECES, run.expert_tp
    yield GROUPED, spec.has_experts
    yield DISPATCHER, dispatcher(run)
    yield DEEPEP, dispatcher(run) is not None
    yield from stages.settings(STAGES, further_modules(spec, run))
    yield "--global-batch-size", launch.question.sequences
    yield "--sequence-parallel", run.tp > 1 and run.divides_sequence
    on_host = run.offload == "optimizer"
    formats = dict(format_options(run))
    yield "--use-distributed-optimizer", run.zero > 0 or bool(formats[AWARE])
    yield from formats.items()
    yield "--optimizer-cpu-offload", on_host
    yield "--optimizer-offload-fraction", run.offload_fraction if on_host else None
    yield "--overlap-cpu-optimizer-d2h-h2d", on_host
    yield WAITING, spec.n_layers - 1 if run.offload == "activations" else None
    yield "--use-megatron-fsdp", run.zero == 3
    yield "--data-parallel-sharding-strategy", "optim_grads_params" if run.zero == 3 else None
    yield "--overlap-grad-reduce", run.zero > 0
    yield "--overlap-param-gather", run.zero > 0
    yield "--tp-comm-overlap", run.tp > 1 and run.divides_sequence
    yield "--bf16", True
    yield "--fp8-format", "hybrid" if run.recipe == "fp8" else None
    yield SCALING, scaling(run)
    yield "--recompute-granularity", granularity(run)
    yield MODULES, modules_written(run)
    if run.checkpointing == "full":
        method, layers = recomputed(launch)
        yield "--recompute-method", method
        yield "--recompute-num-layers", layers
    yield "--use-flash-attn", True


def _write(launch: Launch) -> str:
    return command(torchrun(launch, "pretrain_gpt.py"), _options(launch))


def _read(text: str, where: str) -> Read:
    found = options_of(text, where, SIZES)
    words: dict[str, Any] = {field: whole(found, flag, where, 1) for flag, field in SIZES.items() if field != "seq"}
    words["zero"] = _zero(found, where)
    words |= read_formats(found, "fp8" if "--fp8-format" in found else "bf16-master", where)
    words["checkpointing"] = one_of(found, "--recompute-granularity", RECOMPUTE, "", where)
    if "--recompute-activations" in found:  # Megatron-Core sets the other by it, whatever that says.
        words["checkpointing"] = "selective"
    if words["checkpointing"] == "selective":
        words |= modules_read(values_of(text, MODULES) if MODULES in found else None, f"{where}: {MODULES}")
        check_scaling(words, found.get(SCALING), f"{where}: {SCALING}")
    for flag, what in NOT_DESCRIBED.items():
        if flag in found:
            raise Refused(f"{where}: {flag}", f"none: {what} is not described", found[flag] or "given")
    words |= _offload(found, where)
    if words["tp"] > 1 and "--sequence-parallel" not in found:
        words["sequence_parallel"] = False
    if (pieces := whole(found, PIECES, where)) not in (None, words["tp"]):
        words["expert_tp"] = pieces
    if (seq := whole(found, "--seq-length", where)) is not None:
        words["seq"] = seq
    gpus = _gpus(found, where)
    unread = tuple(name for name in found if name not in NAMES) + unread_dispatcher(found, DISPATCHER, where)
    layers = None
    if words["checkpointing"] == "full":
        layers = checkpointed(found, "--recompute-method", "--recompute-num-layers", where)
    sequences = whole(found, "--global-batch-size", where)
    division = read_stages(found, STAGES, words["pp"], found.__contains__, where, whole(found, IN_PIECE, where))
    waiting = whole(found, WAITING, where, least=0) or None
    return Read(words, sequences, gpus, unread, division, layers, waiting)


RELATED = (
    *STAGES[:-1],
    IN_PIECE,
    PIECES,
    GROUPED,
    DISPATCHER,
    DEEPEP,
    WAITING,
    "--global-batch-size",
    "--sequence-parallel",
    "--use-distributed-optimizer",
    *FORMATS,
    "--optimizer-cpu-offload",
    "--optimizer-offload-fraction",
    "--overlap-cpu-optimizer-d2h-h2d",
    "--use-megatron-fsdp",
    "--data-parallel-sharding-strategy",
    "--overlap-grad-reduce",
    "--overlap-param-gather",
    "--tp-comm-overlap",
    "--bf16",
    "--fp8-format",
    SCALING,
    "--recompute-granularity",
    "--recompute-activations",
    MODULES,
    "--recompute-method",
    "--recompute-num-layers",
    "--use-flash-attn",
    "--nnodes",
    "--nproc-per-node",
    "--rdzv-backend",
    "--rdzv-endpoint",
)
"""Other options that a plan is made of, or that say where it runs."""


def _zero(found: dict[str, str], where: str) -> int:
    if "--use-megatron-fsdp" in found:
        return one_of(found, "--data-parallel-sharding-strategy", SHARDING, "no_shard", where)
    return int("--use-distributed-optimizer" in found)


def _offload(found: dict[str, str], where: str) -> dict[str, Any]:
    """What stands on the host. Errors: Refused for copies that wait for each other, whose time is another, for what is
    no part, and for activations there beside the optimizer."""
    waiting = whole(found, WAITING, where, least=0)
    if "--optimizer-cpu-offload" not in found:
        return {"offload": "activations"} if waiting else {}
    if waiting:
        raise Refused(f"{where}: {WAITING}", "none beside --optimizer-cpu-offload", waiting)
    for flag in (AWARE, "--overlap-cpu-optimizer-d2h-h2d"):
        if flag not in found:
            raise Refused(
                f"{where}: {flag}", "given beside --optimizer-cpu-offload: without it nothing is described", "none"
            )
    text = found.get("--optimizer-offload-fraction", "1")
    try:
        return {"offload": "optimizer", "offload_fraction": float(text)}
    except ValueError:
        raise Refused(f"{where}: --optimizer-offload-fraction", "a part above 0, up to 1", text) from None


def _gpus(found: dict[str, str], where: str) -> int | None:
    nodes, each = whole(found, "--nnodes", where), whole(found, "--nproc-per-node", where)
    return None if nodes is None or each is None else nodes * each


NAMES = (*SIZES, *RELATED)
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
