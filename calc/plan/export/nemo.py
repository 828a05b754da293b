"""NeMo 2: overrides of a recipe on the command line of `nemo llm pretrain`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from calc.errors import Refused
from calc.plan.export.launch import Launch, Read, Tool, checkpointed, core_alone, one_of, recomputed, whole

SOURCE = (
    "https://docs.nvidia.com/nemo-framework/user-guide/24.12/nemo-2.0/: MegatronStrategy, PreTrainingDataModule,"
    " MegatronMixedPrecision, and recomputation of the model's TransformerConfig"
)
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
ENDS = ("model.config.account_for_embedding_in_pipeline_split", "model.config.account_for_loss_in_pipeline_split")
MODULES = "model.config.recompute_modules"
NOT_DESCRIBED = ("model.config.cpu_offloading", "model.config.fine_grained_activation_offloading")
FP8 = "trainer.plugins.fp8"
READ = (
    PIECES,
    VIRTUAL,
    MODULES,
    FP8,
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
    run = launch.run
    yield "trainer.num_nodes", launch.nodes
    yield "trainer.devices", launch.per_node
    yield from ((name, getattr(run, field)) for name, field in SIZES.items())
    if run.expert_tp is not None:
        yield PIECES, run.expert_tp
    yield VIRTUAL, run.interleave if run.interleave > 1 else None
    if run.pp > 1 and launch.question.spec.n_layers % (run.pp * run.interleave):
        yield from ((name, True) for name in ENDS)
    yield f"{STRATEGY}.sequence_parallel", run.tp > 1 and run.divides_sequence
    yield f"{STRATEGY}.ddp.use_distributed_optimizer", run.zero > 0
    yield f"{STRATEGY}.ddp.overlap_grad_reduce", run.zero > 0
    yield f"{STRATEGY}.ddp.overlap_param_gather", run.zero > 0
    yield "data.global_batch_size", launch.question.sequences
    if run.recipe == "fp8":
        yield FP8, "hybrid"
    if run.checkpointing != "none":
        yield "model.config.recompute_granularity", run.checkpointing
    if run.checkpointing == "full":
        method, layers = recomputed(launch)
        yield "model.config.recompute_method", method
        yield "model.config.recompute_num_layers", layers


def _write(launch: Launch) -> str:
    return " \\\n  ".join(['nemo llm pretrain --factory "$RECIPE"', *(f"{k}={v}" for k, v in _settings(launch))]) + "\n"


def _read(text: str, where: str) -> Read:
    pairs = (word.partition("=") for word in text.replace("\\\n", " ").split() if "=" in word)
    found = {name: value for name, _, value in pairs}
    if not any(name in found for name in SIZES):
        raise Refused(where, f"settings such as {STRATEGY}.tensor_model_parallel_size=8", text[:40])
    words: dict[str, Any] = {field: whole(found, name, where, 1) for name, field in SIZES.items() if field != "seq"}
    if (seq := whole(found, "data.seq_length", where)) is not None:
        words["seq"] = seq
    if found.get(PIECES, "None") != "None" and (pieces := whole(found, PIECES, where)) != words["tp"]:
        words["expert_tp"] = pieces
    if found.get(VIRTUAL, "None") != "None":
        words["interleave"] = whole(found, VIRTUAL, where, 1)
    words["zero"] = int(one_of(found, f"{STRATEGY}.ddp.use_distributed_optimizer", TRUTH, "False", where))
    if words["tp"] > 1 and not one_of(found, f"{STRATEGY}.sequence_parallel", TRUTH, "False", where):
        words["sequence_parallel"] = False
    granularity = {"None": "none", "selective": "selective", "full": "full"}
    words["checkpointing"] = one_of(found, "model.config.recompute_granularity", granularity, "None", where)
    if words["checkpointing"] == "selective":
        modules = found.get(MODULES, "None").strip("[]()\"' ")
        core_alone([] if modules == "None" else re.split(r"[\"', ]+", modules), f"{where}: {MODULES}")
    for name in NOT_DESCRIBED:
        if one_of(found, name, TRUTH, "False", where):
            raise Refused(f"{where}: {name}", "False: what it keeps on the host is not described", "True")
    words["recipe"] = one_of(found, FP8, {"None": "bf16-master", "null": "bf16-master", "hybrid": "fp8"}, "None", where)
    nodes, each = whole(found, "trainer.num_nodes", where), whole(found, "trainer.devices", where)
    gpus = None if nodes is None or each is None else nodes * each
    unread = tuple(sorted(found.keys() - set(NAMES)))
    ends = sum(one_of(found, name, TRUTH, "False", where) for name in ENDS)
    layers = None
    if words["checkpointing"] == "full":
        layers = checkpointed(found, "model.config.recompute_method", "model.config.recompute_num_layers", where)
    sequences = whole(found, "data.global_batch_size", where)
    return Read(words, sequences, gpus, unread, ends=ends, checkpointed=layers)


NAMES = (*SIZES, *ENDS, *READ, *NOT_DESCRIBED)
NEMO = Tool("nemo", "24.12", SOURCE, "megatron-core", "nemo", ("bf16-master", "fp8"), _write, _read, NAMES)
