"""torchtitan: the options of its command line, which its ConfigManager reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from calc.errors import Refused
from calc.memory.stage_lengths import dealt_pieces, in_pieces, piece_lengths, stage_lengths
from calc.plan.export.commands import command, options_of, torchrun
from calc.plan.export.launch import Division, Launch, Read, Tool
from calc.plan.export.settings import gpus_of, one_of, whole
from calc.plan.launchers import launcher
from calc.sizes import is_exactly
from calc.spec.run import Run

CHECKPOINTING = {"none": "none", "selective-op": "selective", "full": "full"}
OPTIMIZER = "--optimizer.implementation"
OPTIMIZERS = {"adamw": "fused", "adamw-foreach": "foreach", "adamw-bf16": "fused_opt_states_bf16"}
"""Optimizer -> how torchtitan runs AdamW, which its configurations have (components/optimizer/optimizer.py)."""
COMPILED = "--compile.enable"
RESHARD = {"always": 3, "never": 2}
SIZES = {
    "--parallelism.tensor-parallel-degree": "tp",
    "--parallelism.pipeline-parallel-degree": "pp",
    "--parallelism.context-parallel-degree": "cp",
    "--parallelism.expert-parallel-degree": "ep",
}
"""Option -> field of a Run."""
SCHEDULE = "--parallelism.pipeline-parallel-schedule"
PIECES = {"1F1B": 1, "Interleaved1F1B": 2, "GPipe": 1}
"""Schedule -> pieces of a stage where nothing says how many layers one has."""
LAYERS = "--parallelism.pipeline-parallel-layers-per-stage"
LESS = tuple(f"--parallelism.pipeline-parallel-{each}-stage-less-layers" for each in ("first", "last"))
"""How many layers fewer the ends hold, for embedding and head; torchtitan's own default is one."""
READ = (
    "--module",
    "--config",
    "--training.seq-len",
    "--training.local-batch-size",
    "--training.global-batch-size",
    "--parallelism.data-parallel-replicate-degree",
    "--parallelism.data-parallel-shard-degree",
    "--parallelism.fsdp-reshard-after-forward",
    SCHEDULE,
    "--parallelism.pipeline-parallel-microbatch-size",
    LAYERS,
    *LESS,
    OPTIMIZER,
    COMPILED,
    "--training.disable-cuda-graphs",
    "--nnodes",
    "--nproc-per-node",
    "--rdzv-backend",
    "--rdzv-endpoint",
)
"""Other options that a plan is made of, or that say where it runs."""


def _options(launch: Launch) -> Iterator[tuple[str, Any]]:
    run, piped = launch.run, launch.run.pp > 1
    yield "--module", "$MODULE"
    yield "--config", "$CONFIG"
    yield "--training.seq-len", run.seq
    # A pipeline's micro-batches are cut from one local batch; without one they are accumulated.
    yield "--training.local-batch-size", run.batch * (run.micro_batches_a_step if piped else 1)
    yield "--training.global-batch-size", launch.question.sequences
    yield "--parallelism.data-parallel-replicate-degree", 1
    yield "--parallelism.data-parallel-shard-degree", run.dp
    yield "--parallelism.fsdp-reshard-after-forward", "always" if run.zero == 3 else "never"
    for option, field in SIZES.items():
        yield option, getattr(run, field)
    if piped:
        yield SCHEDULE, "Interleaved1F1B" if run.interleave > 1 else "GPipe" if run.schedule == "gpipe" else "1F1B"
        yield "--parallelism.pipeline-parallel-microbatch-size", run.batch
        layers, *ends = _dealing(launch.question.spec.n_layers, run)
        yield LAYERS, layers
        yield from zip(LESS, ends, strict=True)
    yield OPTIMIZER, OPTIMIZERS[run.usual_optimizer]
    yield COMPILED, run.fuses
    # Its parser refuses graphs beside a pipeline, and times are told without them.
    yield "--training.disable-cuda-graphs", True
    yield f"activation-checkpoint:{CHECKPOINTING[run.checkpointing]}", True


def _dealing(n_layers: int, run: Run) -> tuple[int | None, int, int]:
    """(layers of a piece, layers less in the first piece, in the last) by which torchtitan divides layers as a plan
    does (distributed/pipeline_parallel.py of 0.3.0); None where stages hold one piece unasked.

    Errors: Refused for stages that it does not deal.
    """
    wanted = piece_lengths(n_layers, run.pp, run.interleave)
    if run.stages is not None:
        wanted = in_pieces(stage_lengths(n_layers, run.pp, given=run.stages), run.interleave)
    pieces, each = len(wanted), max(wanted)
    for first, last in ((each - wanted[0], each - wanted[-1]), (0, 0)):
        if max(first, last, 1) <= (n_layers + first + last) // pieces:
            layers = -(-(n_layers + first + last) // pieces)
            told = layers if -(-(n_layers + first + last) // layers) == pieces else None
            if dealt_pieces(n_layers, pieces, first, last) == wanted and (told or run.interleave == 1):
                return told, first, last
    raise Refused("stages", "pieces that torchtitan deals: all as long but the first or the last", str(wanted)[1:40])


def _write(launch: Launch) -> str:
    """Errors: Refused for experts that tensor-parallel ranks cut where they are spread, as torchtitan borrows those
    ranks for them, and for whole ones that are not, which it cuts."""
    run = launch.run
    if not launcher("torchtitan").cuts(run.tp, run.ep, run.expert_pieces):
        expected = "whole experts (--expert-tp 1), as torchtitan spreads them over tp and dp"
        if is_exactly(run.ep, 1):
            expected = f"{run.tp}, as torchtitan cuts experts that are not spread"
        raise Refused("expert_tp", expected, f"{run.expert_pieces} parts of each")
    made = command(torchrun(launch, "-m torchtitan.train"), _options(launch))
    # Names of torchtitan's own model and configuration are for the user to set.
    return made.replace("'$MODULE'", '"$MODULE"').replace("'$CONFIG'", '"$CONFIG"')


def _read(text: str, where: str) -> Read:
    found = options_of(text, where, SIZES)
    words: dict[str, Any] = {field: whole(found, option, where, 1) for option, field in SIZES.items()}
    if words["tp"] > 1 and words["ep"] > 1:
        words["expert_tp"] = 1
    replicas = whole(found, "--parallelism.data-parallel-replicate-degree", where, 1)
    if replicas != 1:
        raise Refused(f"{where}: data-parallel-replicate-degree", "1, of which plans are made", replicas)
    words["zero"] = one_of(found, "--parallelism.fsdp-reshard-after-forward", RESHARD, "always", where)
    local = whole(found, "--training.local-batch-size", where, 8)
    piped = words["pp"] > 1
    words["batch"] = whole(found, "--parallelism.pipeline-parallel-microbatch-size", where, 1) if piped else local
    division = _division(found, words, where) if piped else Division()
    modes = {f"activation-checkpoint:{theirs}": ours for ours, theirs in CHECKPOINTING.items()}
    words["checkpointing"] = next((ours for word, ours in modes.items() if word in text), "selective-op")
    if (seq := whole(found, "--training.seq-len", where)) is not None:
        words["seq"] = seq
    words["recipe"] = "bf16-fsdp"
    if COMPILED not in found:  # which is off unless it is said
        words["execution"] = "sdpa"
    updates = one_of(found, OPTIMIZER, {theirs: ours for ours, theirs in OPTIMIZERS.items()}, "fused", where)
    if updates != "adamw":
        words["optimizer"] = updates
    gpus = gpus_of(found, "--nnodes", "--nproc-per-node", where)
    unread = tuple(name for name in found if name not in NAMES)
    return Read(words, whole(found, "--training.global-batch-size", where), gpus, unread, division)


def _division(found: dict[str, str], words: dict[str, Any], where: str) -> Division:
    """How layers are dealt; schedule and pieces are set in words. Errors: Refused for a schedule without a time."""
    schedule = found.get(SCHEDULE, "1F1B")
    words["interleave"] = one_of(found, SCHEDULE, PIECES, "1F1B", where)
    if schedule == "GPipe":
        words["schedule"] = "gpipe"
    embedding, loss = (whole(found, option, where, 1, least=0) for option in LESS)
    return Division(whole(found, LAYERS, where), embedding, loss, even=False)


NAMES = (*SIZES, *READ)
TORCHTITAN = Tool(
    "torchtitan",
    "0.3.0",
    launcher("torchtitan").source,
    "torchtitan",
    "torchtitan",
    ("bf16-fsdp",),
    _write,
    _read,
    NAMES,
    tuple(OPTIMIZERS),
)
