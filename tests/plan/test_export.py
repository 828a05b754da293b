"""Launch files: read back they are the plan they were written from, and their tools' own parsers take them."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import calc
from calc.errors import Refused
from calc.memory.stage_lengths import stage_lengths
from calc.plan.checks import dealt_by_layers
from calc.plan.command import predict_command
from calc.plan.existing import plan_of, question_of, words_of
from calc.plan.export.launch import Launch
from calc.plan.export.megatron_core import STAGES as STAGES_OF_MEGATRON
from calc.plan.export.nemo import STAGES as STAGES_OF_NEMO
from calc.plan.export.registry import TOOLS, tool
from calc.plan.layouts import cut_in_pieces, layout_text, read_layout
from calc.plan.planning import answer
from calc.plan.question import Question, plan_words
from calc.spec.clusters import load_cluster
from calc.spec.run import Run

PARSED = ("accelerate", "deepspeed", "torchtitan")
NEEDED = {
    "accelerate": ("accelerate==1.15.0", "psutil"),
    "deepspeed": ("deepspeed==0.19.8", "psutil", "py-cpuinfo", "msgpack", "ninja", "hjson", "einops"),
    "megatron-core": ("megatron-core==0.13.0",),
    "megatron-core with modules for further tokens": ("megatron-core==0.14.0",),
    "torchtitan": (
        *("torchtitan==0.3.0", "tyro", "docstring-parser", "shtab", "typeguard", "tensorboard", "absl-py"),
        *("datasets", "spmd_types", "multiprocess", "dill", "xxhash", "fsspec", "pyarrow", "aiohttp", "torchdata"),
    ),
}
"""Tool -> what its parser imports beyond what the tests have, fetched without what those would install in turn."""


def asked_of(name: str, **more: Any) -> Question:
    """A question whose plans the tool can launch, of a model that its users train."""
    own = tool(name)
    spec = calc.load_model("llama-3-8b")
    usual: dict[str, Any] = {"recipes": ("bf16-master",), "at_most": {"batch": 2}}
    usual["recipes"] = {"deepspeed": ("bf16-zero",), "megatron-core": ("bf16-master",), "nemo": ("bf16-master",)}.get(
        name, ("bf16-fsdp",)
    )
    words = own.words
    return Question(
        spec, load_cluster("dgx-h100"), (16,), 4096, 64, words=words, launched=own.launcher, **(usual | more)
    )


@cache
def plans_of(name: str) -> list[tuple[Question, Run]]:
    """Plans of many kinds: the best of all, and the best with each kind of parallelism that the tool can launch."""
    kinds: list[dict[str, Any]] = [
        {},
        {"tp": 2},
        {"pp": 2},
        {"cp": 2},
        {"checkpointing": "full", "checkpoint_every": 1},
        {"checkpointing": "full", "checkpoint_every": 4},
        {"checkpointing": "full", "checkpoint_every": 2, "pp": 2},
        {"pp": 2, "interleave": 2},
    ]
    kinds += [{"checkpointing": "selective-op"}, {"checkpointing": "selective"}, {"zero": 3}, {"zero": 0}]
    kinds += [{"sequence_parallel": False, "tp": 2}, {"offload": "optimizer"}, {"offload": "activations"}]
    kinds += [{"recompute": ("mlp",)}]
    found = []
    for fixed in kinds:
        try:
            asked = asked_of(name, fixed=fixed)
        except Refused:
            continue  # of what the tool's stack has no description
        found += [(asked, plan.run) for plan in answer([asked], top=1).plans]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", TOOLS)
def test_a_file_read_back_is_the_plan(name: str) -> None:
    """accelerate's file has no batch, which is then that of the question."""
    plans = plans_of(name)
    assert len(plans) >= 3
    for asked, run in plans:
        text = tool(name).write(Launch(asked, run))
        read = tool(name).read(text, "plan")
        assert read.unread == ()
        words = words_of(asked, read) | ({"batch": run.batch} if name == "accelerate" else {})
        again = plan_of(question_of(asked, read), words)
        assert plan_words(again.run) == plan_words(run)
        assert again.run.gpus == run.gpus


@pytest.mark.parametrize("name", TOOLS)
@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", "--", "'", "\x00", '{"fsdp_config": 3}', "GPUS = -1", "--micro-batch-size x"]
)
def test_hostile_files_are_refused(name: str, text: str) -> None:
    with pytest.raises(Refused):
        tool(name).read(text, "plan")


def test_an_unknown_tool_is_refused() -> None:
    with pytest.raises(Refused, match="did you mean torchtitan"):
        tool("torchtitn")


def test_a_program_of_fsdp2_shards_a_model() -> None:
    """The lines that are written run, on one rank of a CPU, and the model still goes forward and back."""
    asked, full = next(pair for pair in plans_of("fsdp2") if pair[1].checkpointing == "full")
    text = tool("fsdp2").write(Launch(asked, full)).replace(f"GPUS = {full.gpus}", "GPUS = 1")
    check = """
import torch.distributed as dist
dist.init_process_group("gloo", init_method="tcp://127.0.0.1:0", rank=0, world_size=1)
model = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(3)))
spread(model, list(model), "cpu")(torch.ones(2, 8)).sum().backward()
assert all(p.grad is not None for p in model.parameters())
print("sharded", type(next(model.parameters())).__name__)
dist.destroy_process_group()
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", text + check], capture_output=True, text=True, check=False
    )
    assert "sharded DTensor" in done.stdout, done.stderr


@pytest.fixture(scope="session")
def fetched(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Tool -> a folder from which its parser is imported."""
    folders: dict[str, Path] = {}

    def folder(name: str) -> Path:
        if name not in folders:
            made = tmp_path_factory.mktemp(name)
            options = ["-q", "--no-deps", "--no-compile", "--target", str(made)]
            command = [sys.executable, "-m", "pip", "install", *options, *NEEDED[name]]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)
            if done.returncode:
                pytest.skip(f"{name} cannot be fetched here: {done.stderr.strip().splitlines()[-1]}")
            folders[name] = made
        return folders[name]

    return folder


def parsed(folder: Path, program: str, cases: list[list[str]]) -> list[Any]:
    """What the tool's parser reads of each case, by a program of few lines that defines `read(words)`.

    One process reads all of them, since importing such a tool takes longer than anything that it is asked here.
    """
    environment = {**os.environ, "PYTHONPATH": str(folder), "DS_ACCELERATOR": "cpu"}
    command = [sys.executable, "-W", "ignore", "-c", program + EACH]
    done = subprocess.run(
        command, input=json.dumps(cases), capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


EACH = """
import json, sys
print(json.dumps([read(words) for words in json.load(sys.stdin)]))
"""
ACCELERATE = """
from accelerate.commands.config.config_args import load_config_from_file
from accelerate.commands.launch import launch_command_parser
def read(words):
    found = load_config_from_file(words[0])
    known = {action.dest for action in launch_command_parser()._actions}
    assert set(found.fsdp_config) <= known, set(found.fsdp_config) - known
    return {"gpus": found.num_processes, "nodes": found.num_machines, **found.fsdp_config}
"""
DEEPSPEED = """
import json
from deepspeed.runtime.config import DeepSpeedConfig
import deepspeed.runtime.config as theirs
theirs.dist.get_rank = lambda *group: 0
def read(words):
    theirs.dist.get_world_size = lambda *group: int(words[1])  # as many ranks as the plan has, none of which is started
    found = DeepSpeedConfig(json.load(open(words[0])))
    return {"zero": found.zero_config.stage, "batch": found.train_micro_batch_size_per_gpu,
            "steps": found.gradient_accumulation_steps, "all": found.train_batch_size,
            "host": found.activation_checkpointing_config.cpu_checkpointing}
"""
TORCHTITAN = """
from torchtitan.config import ConfigManager
def read(words):
    found = ConfigManager().parse_args(words)
    its = found.parallelism
    return {"tp": its.tensor_parallel_degree, "pp": its.pipeline_parallel_degree,
            "cp": its.context_parallel_degree, "dp": its.data_parallel_shard_degree,
            "seq": found.training.seq_len, "all": found.training.global_batch_size,
            "ac": type(found.activation_checkpoint).__qualname__}
"""
MEGATRON_CORE = """
from megatron.core.transformer.pipeline_parallel_layer_layout import PipelineParallelLayerLayout
def read(words):
    text, pp, *numbers = words
    found = PipelineParallelLayerLayout(text, int(pp))
    found.validate_layer_layout(*map(int, numbers))
    return [found.virtual_pipeline_model_parallel_size,
            [sum(layer.name == "decoder" for piece in stage for layer in piece) for stage in found.layout],
            sum(layer.name == "mtp" for layer in found.flatten_layout)]
"""
MEGATRON_STAGES = """
from types import SimpleNamespace
from megatron.core import parallel_state
from megatron.core.transformer.transformer_block import get_num_layers_to_build
NAMES = ("account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split",
         "num_layers_in_first_pipeline_stage", "num_layers_in_last_pipeline_stage")
def read(words):
    layers, pp, pieces, *said = words
    config = SimpleNamespace(num_layers=layers, pipeline_model_parallel_size=pp, pipeline_model_parallel_layout=None,
                             **dict(zip(NAMES, said)))
    parallel_state.set_pipeline_model_parallel_world_size(pp)
    parallel_state.set_virtual_pipeline_model_parallel_world_size(pieces if pieces > 1 else None)
    found = []
    for rank in range(pp):
        parallel_state.set_pipeline_model_parallel_rank(rank)
        held = range(pieces) if pieces > 1 else [None]
        found.append(sum(get_num_layers_to_build(config, piece) for piece in held))
    return found
"""
TORCHTITAN_STAGES = """
from torchtitan.distributed.pipeline_parallel import _generate_llm_fqn_per_model_part as deal
def read(words):
    pp, pieces, layers, first, last = words
    parts = [sum(name.startswith("layers.") for name in part) for part in deal(pp * pieces, layers, first, last)]
    return [sum(parts[stage::pp]) for stage in range(pp)]
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", PARSED)
def test_its_own_parser_takes_every_file(name: str, fetched: Any, tmp_path: Path) -> None:
    """Every kind of plan, in the version of the tool that is named."""
    plans, cases = plans_of(name), []
    for place, (asked, run) in enumerate(plans):
        text = tool(name).write(Launch(asked, run))
        file = tmp_path / f"{place}.json"
        file.write_text(text)
        if name == "torchtitan":
            words = shlex.split(text.replace("\\\n", " ").replace("$MODULE", "llama3").replace("$CONFIG", "llama3_8b"))
            cases.append(words[words.index("torchtitan.train") + 1 :])
        else:
            cases.append([str(file), str(run.dp)])
    program = {"accelerate": ACCELERATE, "deepspeed": DEEPSPEED, "torchtitan": TORCHTITAN}[name]
    for (_, run), found in zip(plans, parsed(fetched(name), program, cases), strict=True):
        if name == "accelerate":
            assert (found["gpus"], found["nodes"], found["fsdp_version"]) == (run.gpus, 2, 2)
            assert found["fsdp_reshard_after_forward"] == (run.zero == 3)
        elif name == "deepspeed":
            own = {"zero": run.zero, "batch": run.batch, "steps": run.micro_batches, "all": 64}
            assert found == own | {"host": run.offload == "activations"}
        else:
            own = {name: getattr(run, name) for name in ("tp", "pp", "cp", "dp", "seq")}
            kinds = {"none": "NoneType", "full": "FullAC.Config", "selective-op": "SelectiveAC.Config"}
            assert found == own | {"all": 64, "ac": kinds[run.checkpointing]}


@pytest.mark.parametrize("name", ["megatron-core", "nemo"])
def test_layers_of_a_piece_that_are_checkpointed(name: str) -> None:
    """Llama 3 8B on 2 stages of 2 pieces: 8 layers each, of which every fourth are 2."""
    asked = asked_of(name, fixed={"pp": 2, "interleave": 2, "checkpointing": "full", "checkpoint_every": 4})
    (plan,) = answer([asked], top=1).plans
    text = tool(name).write(Launch(asked, plan.run))
    method, layers = ("recompute_method=", "recompute_num_layers=") if name == "nemo" else ("-method ", "-num-layers ")
    assert f"{method}block" in text
    assert f"{layers}2" in text
    assert words_of(asked, tool(name).read(text, "plan"))["checkpoint_every"] == 4
    odd = text.replace(f"{layers}2", f"{layers}3")
    with pytest.raises(Refused, match="a divisor of a piece's 8"):
        words_of(asked, tool(name).read(odd, "plan"))
    together = text.replace(f"{method}block", f"{method}uniform")
    with pytest.raises(Refused, match="each layer by itself"):
        tool(name).read(together, "plan")


SENDERS = {
    "megatron-core": ("--moe-token-dispatcher-type ", "--moe-enable-deepep"),
    "nemo": ("model.config.moe_token_dispatcher_type=", "model.config.moe_enable_deepep=True"),
}


@pytest.mark.parametrize("name", SENDERS)
def test_experts_are_sent_as_they_were_timed(name: str) -> None:
    """Once to each rank of a token's experts; a plain all-to-all is named as not read, and what gathers all tokens,
    Megatron-Core's usual, is refused."""
    option, deepep = SENDERS[name]
    fixed = {"tp": 1, "pp": 1, "cp": 1}
    cluster, own = load_cluster("dgx-h100"), tool(name)
    for model, ranks in (("qwen3-30b-a3b", 8), ("llama-3-8b", 1)):
        spec = calc.load_model(model)
        asked = Question(spec, cluster, (8,), 4096, 64, ("bf16-master",), fixed=fixed | {"ep": ranks}, words=own.words)
        (plan,) = answer([asked], top=1).plans
        text = own.write(Launch(asked, plan.run))
        assert (f"{option}flex" in text, deepep in text) == (ranks > 1, ranks > 1)
        assert ("--moe-grouped-gemm" in text) == (ranks > 1 and name == "megatron-core")
        assert own.read(text, "plan").unread == ()
        if ranks > 1:
            assert own.read(text.replace("flex", "alltoall"), "plan").unread == (option[:-1],)
            with pytest.raises(Refused, match="expected one of flex, alltoall, found allgather"):
                own.read(text.replace("flex", "allgather"), "plan")


@pytest.mark.parametrize("name", ["megatron-core", "nemo"])
def test_experts_that_no_rank_cuts(name: str) -> None:
    """Qwen3 30B on 8 GPUs: 8 ranks of experts, of which two share a sequence; cut, there are no more than four."""
    cluster = load_cluster("dgx-h100")
    fixed = {"tp": 2, "ep": 8, "pp": 1, "cp": 1, "expert_tp": 1}
    spec = calc.load_model("qwen3-30b-a3b")
    asked = Question(spec, cluster, (8,), 4096, 64, ("bf16-master",), fixed=fixed, words={"stack": "megatron-core"})
    (plan,) = answer([asked], top=1).plans
    text = tool(name).write(Launch(asked, plan.run))
    option = "expert_tensor_parallel_size=" if name == "nemo" else "--expert-tensor-parallel-size "
    assert f"{option}1" in text
    assert words_of(asked, tool(name).read(text, "plan"))["expert_tp"] == 1
    assert "--expert-tp 1" in str(predict_command(asked, plan.run))
    # As many parts as ranks is what both do where nothing is said.
    assert "expert_tp" not in words_of(asked, tool(name).read(text.replace(f"{option}1", f"{option}2"), "plan"))
    assert not answer([replace(asked, fixed=fixed | {"expert_tp": 2})], top=1).plans
    assert answer([replace(asked, fixed={"tp": 2, "ep": 8, "cp": 1, "pp": 1})], top=1).plans[0].run == plan.run


@pytest.mark.slow
@pytest.mark.parametrize("further", [0, 1])
def test_layouts_are_what_megatron_core_reads(further: int, fetched: Any) -> None:
    """Its own reader finds in every layout the pieces, the layers of each stage and the modules that are read here;
    modules are in layouts from 0.14 on."""
    spec, end = calc.load_model("deepseek-v3"), "m" * further + "L"
    layouts = [("Et*2|(tt|)*22t|(tt|)*7", 8), ("Et*16|t*16|t*16,|t*13,", 4), ("Et|(tt|)*30", 8), ("E|*2t*61|", 4)]
    layouts = [(text + end, pp) for text, pp in layouts] + [
        (layout_text(spec, Run(pp=pp, interleave=pieces, mtp=bool(further))), pp)
        for pp in (2, 3, 4, 8, 16)
        for pieces in (1, 2, 3, 4, 7)
        if cut_in_pieces(61, pp, pieces)
    ]
    cases = [[text, str(pp), "61", *["1"] * further] for text, pp in layouts]
    ours = [read_layout(text, pp, "layout") for text, pp in layouts]
    folder = fetched("megatron-core with modules for further tokens" if further else "megatron-core")
    found = parsed(folder, MEGATRON_CORE, cases)
    assert found == [[own.pieces, list(own.stages), own.further] for own in ours]


def stage_flags(name: str, pp: int, pieces: int, said: list[Any]) -> str:
    """Words of Megatron-Core or NeMo for stages. said: embedding, loss, and layers of the first and the last."""
    if name == "nemo":
        words, sizes = STAGES_OF_NEMO, "trainer.strategy.pipeline_model_parallel_size={} {}={}"
        sizes = sizes.format(
            pp, "trainer.strategy.virtual_pipeline_model_parallel_size", pieces if pieces > 1 else None
        )
        return " ".join([sizes, *(f"{word}={its}" for word, its in zip(words, said, strict=False))])
    words = STAGES_OF_MEGATRON
    flags = [word if its is True else f"{word} {its}" for word, its in zip(words, said, strict=False) if its]
    flags += [f"--num-virtual-stages-per-pipeline-rank {pieces}"] * (pieces > 1)
    return " ".join([f"--pipeline-model-parallel-size {pp}", *flags])


@pytest.mark.slow
def test_stages_of_flags_are_those_that_megatron_core_builds(fetched: Any) -> None:
    """Llama 3.1 405B has 126 layers, DeepSeek-V3 61 and Qwen3 235B 94; modules for further tokens change no stage."""
    models = {126: "llama-3.1-405b", 61: "deepseek-v3", 94: "qwen3-235b-a22b", 32: "llama-3-8b"}
    ends, even = (True, True, None, None), (False, False, None, None)
    cases = [
        *([126, 16, 1, *ends], [126, 8, 2, *ends], [94, 8, 4, *ends], [32, 4, 2, *even], [94, 2, 1, *even]),
        *([126, 127, 1, True, False, None, None], [61, 2, 1, False, True, None, None]),
        *([61, 16, 1, False, False, 3, 2], [61, 8, 1, False, False, None, 5], [61, 2, 1, False, False, 30, None]),
        [61, 6, 1, False, False, 11, None],
    ]
    theirs = parsed(fetched("megatron-core"), MEGATRON_STAGES, cases)
    for (layers, pp, pieces, *said), stages in zip(cases, theirs, strict=True):
        asked = replace(asked_of("megatron-core"), spec=calc.load_model(models[layers]), gpus=(pp,))
        for name in ("megatron-core", "nemo"):
            read = words_of(asked, tool(name).read(stage_flags(name, pp, pieces, said), "plan"))
            assert list(stage_lengths(layers, pp, read["interleave"], given=read.get("stages"))) == stages
            assert read["interleave"] == pieces


@pytest.mark.slow
def test_stages_of_options_are_those_that_torchtitan_deals(fetched: Any) -> None:
    """Those that a plan was timed with: of every pipeline of 32 layers that its plans may have."""
    own, cases, ours = tool("torchtitan"), [], []
    asked = asked_of("torchtitan")
    usual = Run(phase="training", mode="training", recipe="bf16-fsdp", zero=3, seq=4096)
    for pp, pieces in product((2, 3, 4, 5, 6, 8, 11, 16), (1, 2, 3, 4)):
        if pp * pieces > 32 or not dealt_by_layers(32, pp, pieces):
            continue
        text = own.write(Launch(asked, usual.changed(pp=pp, interleave=pieces, micro_batches=pp)))
        read = own.read(text, "plan")
        words = words_of(asked, read)
        assert (words["interleave"], words.get("stages")) == (pieces, None)
        cases.append([pp, pieces, 32, read.division.embedding, read.division.loss])
        ours.append(list(stage_lengths(32, pp, pieces)))
    assert len(cases) > 15
    assert ours == parsed(fetched("torchtitan"), TORCHTITAN_STAGES, cases)


def test_torchtitan_is_told_no_experts_that_tensor_ranks_cut() -> None:
    """torchtitan 0.3.0, distributed/parallel_dims.py: efsdp = dp_shard * cp * tp / ep; nothing cuts an expert."""
    own = tool("torchtitan")
    spec = calc.load_model("qwen3-30b-a3b")
    asked = Question(
        spec,
        load_cluster("dgx-h100"),
        (16,),
        4096,
        64,
        recipes=("bf16-fsdp",),
        words=own.words,
        launched="pytorch",
        fixed={"tp": 2, "ep": 4, "expert_tp": 2},
    )
    cut = answer([asked], top=1).plans[0].run
    assert not answer([replace(asked, launched=own.launcher)], top=1).plans
    with pytest.raises(Refused, match=r"expert_tp: expected whole experts \(--expert-tp 1\)"):
        own.write(Launch(asked, cut))
    with pytest.raises(Refused, match="expert_tp: expected 2, as torchtitan cuts experts that are not spread"):
        own.write(Launch(asked, cut.changed(ep=1, expert_tp=1)))
    fixed = {"tp": 2, "ep": 4, "expert_tp": 1}
    whole = answer([replace(asked, launched=own.launcher, fixed=fixed)], top=1).plans[0].run
    read = own.read(own.write(Launch(asked, whole)), "plan")
    assert (read.words["tp"], read.words["ep"], read.words["expert_tp"]) == (2, 4, 1)
