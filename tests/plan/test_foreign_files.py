"""Launch files that others wrote: what they say is read, or refused by name, and what no plan has is told."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

import calc
from calc.errors import Refused
from calc.plan.existing import plan_of, question_of, words_of
from calc.plan.export.launch import Launch
from calc.plan.export.registry import tool
from calc.plan.question import Question
from calc.spec.clusters import load_cluster

ZERO: dict[str, Any] = {"stage": 3, "overlap_comm": True, "contiguous_gradients": True, "reduce_bucket_size": 5e8}
DEEPSPEED = {
    "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": 4,
    "steps_per_print": 10,
    "bf16": {"enabled": True},
    "zero_optimization": ZERO | {"zero_hpz_partition_size": 8},
    "activation_checkpointing": {"cpu_checkpointing": False, "profile": True},
}
"""As DeepSpeed's documentation on configuration writes them, without the batch of all GPUs."""
FSDP = {"fsdp_version": 2, "fsdp_reshard_after_forward": True, "fsdp_min_num_params": 2000}
NEMO = "trainer.strategy.tensor_model_parallel_size=1"


def deepspeed(**more: Any) -> str:
    return json.dumps(DEEPSPEED | more)


def asked_on(gpus: int) -> Question:
    words = {"stack": "deepspeed"}
    return Question(
        calc.load_model("llama-3-8b"), load_cluster("dgx-h100"), (gpus,), 4096, 640, ("bf16-zero",), words=words
    )


def test_a_batch_of_all_gpus_follows_from_that_of_one() -> None:
    read = tool("deepspeed").read(deepspeed(), "ds.json")
    assert (read.sequences, read.gpus) == (None, None)
    asked = question_of(asked_on(8), read)
    assert asked.sequences == 8 * 2 * 4
    run = plan_of(asked, words_of(asked, read)).run
    assert (run.dp, run.batch, run.micro_batches, run.zero) == (8, 2, 4, 3)
    whole = tool("deepspeed").read(deepspeed(train_batch_size=128), "ds.json")
    assert (whole.sequences, whole.gpus) == (128, 16)
    with pytest.raises(Refused, match="train_batch_size: expected a multiple of micro-batch × accumulation steps = 8"):
        tool("deepspeed").read(deepspeed(train_batch_size=12), "ds.json")


def test_steps_that_are_not_the_batch_s_are_refused() -> None:
    read = tool("deepspeed").read(deepspeed(train_batch_size=64), "ds.json")
    asked = question_of(asked_on(8), read)
    with pytest.raises(Refused, match="micro-batches: expected 4, which 64 sequences a step are over 16 at a time"):
        plan_of(asked, words_of(asked, read) | {"micro_batches": 3})


def test_settings_of_sections_that_no_plan_has_are_told() -> None:
    unread = tool("deepspeed").read(deepspeed(), "ds.json").unread
    assert "zero_optimization.zero_hpz_partition_size" in unread
    assert "activation_checkpointing.profile" in unread
    assert not {"zero_optimization.stage", "activation_checkpointing.cpu_checkpointing"} & set(unread)
    document = {"distributed_type": "FSDP", "mixed_precision": "bf16", "num_processes": 8, "fsdp_config": FSDP}
    assert tool("accelerate").read(json.dumps(document), "fsdp.json").unread == ("fsdp_config.fsdp_min_num_params",)
    told = f"{NEMO} trainer.strategy.ckpt_async_save=False"
    assert tool("nemo").read(told, "plan").unread == ("trainer.strategy.ckpt_async_save",)


@pytest.mark.parametrize("version", [{}, {"fsdp_version": 1}])
def test_fsdp_of_the_first_version_is_refused(version: dict[str, int]) -> None:
    """accelerate's own default is the first."""
    its = version | {"fsdp_sharding_strategy": "NO_SHARD"}
    document = {"distributed_type": "FSDP", "mixed_precision": "bf16", "fsdp_config": its}
    with pytest.raises(Refused, match="fsdp_version: expected 2"):
        tool("accelerate").read(json.dumps(document), "fsdp.json")


def test_words_of_nemo_are_read_and_not_only_found() -> None:
    ends = "account_for_{}_in_pipeline_split"
    for said, counted in (("False", 0), ("True", 1)):
        words = " ".join(f"trainer.strategy.{ends.format(end)}={said}" for end in ("embedding", "loss"))
        division = tool("nemo").read(f"{NEMO} {words}", "plan").division
        assert (division.embedding, division.loss) == (counted, counted)
    with pytest.raises(Refused, match=r"expected trainer.strategy.account_for_loss_in_pipeline_split, which stands in"):
        tool("nemo").read(f"{NEMO} model.config.{ends.format('loss')}=True", "plan")
    for said, recipe in (("None", "bf16-master"), ("null", "bf16-master"), ("hybrid", "fp8"), ("e4m3", "fp8")):
        assert tool("nemo").read(f"{NEMO} trainer.plugins.fp8={said}", "plan").words["recipe"] == recipe
    with pytest.raises(Refused, match=r"trainer\.plugins\.fp8: expected one of .*hybrid"):
        tool("nemo").read(f"{NEMO} trainer.plugins.fp8=e5m2", "plan")


@pytest.mark.parametrize(("name", "text"), [
    ("fsdp2", "GPUS = 0\nMICRO_BATCH = 1\nMICRO_BATCHES = 1"),
    ("torchtitan", "--parallelism.tensor-parallel-degree 1 --training.local-batch-size 0"),
    ("deepspeed", json.dumps(DEEPSPEED | {"train_micro_batch_size_per_gpu": 0})),
    ("megatron-core", "--tensor-model-parallel-size 0"),
    ("nemo", "trainer.strategy.tensor_model_parallel_size=0"),
])  # fmt: skip
def test_sizes_of_nothing_are_refused(name: str, text: str) -> None:
    with pytest.raises(Refused, match="expected a whole number from 1"):
        tool(name).read(text, "plan")


@pytest.mark.parametrize(("name", "start", "granularity", "modules"), [
    ("megatron-core", "--tensor-model-parallel-size 1", "--recompute-granularity selective", "--recompute-modules {}"),
    ("nemo", "trainer.strategy.tensor_model_parallel_size=1", "model.config.recompute_granularity=selective",
     "model.config.recompute_modules=[{}]"),
])  # fmt: skip
def test_modules_that_are_recomputed(name: str, start: str, granularity: str, modules: str) -> None:
    """Attention's core is what selective recomputation means where nothing else is named."""

    def read(more: str) -> tuple[str, tuple[str, ...]]:
        words = tool(name).read(f"{start} {granularity} {more}", "plan").words
        return words["checkpointing"], words.get("recompute", ())

    between = "," if name == "nemo" else " "
    for more in ("", modules.format("core_attn")):
        assert read(more) == ("selective", ())
    assert read(modules.format("")) == ("none", ())
    assert read(modules.format(f"moe_act{between}mlp")) == ("none", ("moe_act", "mlp"))
    assert read(modules.format(f"core_attn{between}moe")) == ("selective", ("moe",))
    with pytest.raises(Refused, match=r"recompute.modules: expected one of core_attn, mlp"):
        read(modules.format("gdn_norm_out"))


def test_what_is_read_and_not_described_is_refused() -> None:
    """Flags that change what a GPU keeps are no settings that plans do not depend on."""
    read, start = tool("megatron-core").read, "--tensor-model-parallel-size 1"
    both = "--recompute-activations --recompute-granularity full"  # Megatron-Core sets the latter by the former
    for flags in ("--recompute-activations", both):
        assert read(f"{start} {flags}", "plan").words["checkpointing"] == "selective"
    with pytest.raises(Refused, match="--fine-grained-activation-offloading: expected none"):
        read(f"{start} --fine-grained-activation-offloading --offload-modules moe_act", "plan")
    with pytest.raises(Refused, match="cpu_offloading: expected False"):
        tool("nemo").read("trainer.strategy.tensor_model_parallel_size=1 model.config.cpu_offloading=True", "plan")


@pytest.mark.parametrize(("name", "text"), [
    ("megatron-core", "--external-cuda-graph --cuda-graph-scope attn"),
    ("megatron-core", "--enable-cuda-graph"),
    ("megatron-core", "--cuda-graph-impl transformer_engine --cuda-graph-modules attn moe_router"),
    ("nemo", "model.config.external_cuda_graph=True"),
])  # fmt: skip
def test_graphs_of_layers_are_refused_by_name(name: str, text: str) -> None:
    """What they hold beside depends on the graphs' pools, of which nothing is written down."""
    start = {"megatron-core": "torchrun pretrain_gpt.py --micro-batch-size 1 --bf16", "nemo": NEMO}[name]
    said = text.split("=")[0].split(" ")[0]
    with pytest.raises(Refused, match=f"{re.escape(said)}: expected .*the memory of CUDA graphs of layers is not"):
        tool(name).read(f"{start} {text}", "plan")
    off = {"megatron-core": "--cuda-graph-impl none", "nemo": "model.config.external_cuda_graph=False"}[name]
    assert tool(name).read(f"{start} {off}", "plan").unread == ()


def test_plans_whose_graphs_launch_kernels_have_no_file() -> None:
    own = tool("megatron-core")
    words = {**own.words, "graphs": "attention"}
    asked = Question(calc.load_model("gpt2"), load_cluster("dgx-h100"), (8,), 1024, 16, ("bf16-master",), words=words)
    run = plan_of(asked, {"recipe": "bf16-master", "zero": 1, "dp": 8}).run
    assert run.graphs == "attention"
    for refused in (lambda: own.check(asked), lambda: own.write(Launch(asked, run))):
        with pytest.raises(Refused, match="graphs: expected one of none in files of megatron-core, found attention"):
            refused()


def test_formats_and_optimizers_that_a_file_says() -> None:
    """What a file says of moments and gradients is read or refused, whichever tool it is of."""
    nemo = tool("nemo").read
    assert nemo(f"{NEMO} trainer.plugins.grad_reduce_in_fp32=False", "plan").words["recipe"] == "bf16-zero"
    both = "trainer.plugins.grad_reduce_in_fp32=False trainer.plugins.fp8=hybrid"
    read = nemo(f"{NEMO} {both}", "plan").words
    assert (read["recipe"], read["gradient_dtype"]) == ("fp8", "bf16")
    moments = [f"optim.config.{name}_dtype=torch.bfloat16" for name in ("exp_avg", "exp_avg_sq")]
    aware = "optim.config.use_precision_aware_optimizer=True"
    assert nemo(f"{NEMO} {' '.join([*moments, aware])}", "plan").words["optimizer"] == "adamw-bf16"
    alone = moments[0], " ".join(moments), f"{aware} optim.config.main_grads_dtype=torch.bfloat16"
    assert nemo(f"{NEMO} {both} trainer.plugins.fp8_params=True", "plan").words["fp8_param_gather"] is True
    for refused in (*alone, "trainer.plugins.fp8_params=True", "trainer.strategy.fsdp=megatron"):
        named = refused.removeprefix(aware).strip()
        with pytest.raises(Refused, match=named.partition("=")[0].replace(".", r"\.")):
            nemo(f"{NEMO} {refused}", "plan")
    for its, ours in (({"type": "Adam"}, None), ({"type": "Lion"}, "lion"),
                      ({"type": "AdamW", "params": {"torch_adam": True}}, "adamw-foreach")):  # fmt: skip
        assert tool("deepspeed").read(deepspeed(optimizer=its), "ds.json").words.get("optimizer") == ours
    with pytest.raises(Refused, match="optimizer: type: expected one of adam, adamw, lion"):
        tool("deepspeed").read(deepspeed(optimizer={"type": "OneBitAdam"}), "ds.json")
    for more in ({"communication_data_type": "fp32"}, {"data_types": {"grad_accum_dtype": "fp32"}}):
        with pytest.raises(Refused, match="communication_data_type and grad_accum_dtype: expected fp32 or bf16, both"):
            tool("deepspeed").read(deepspeed(**more), "ds.json")
    with pytest.raises(Refused, match="bf16_optimizer_states: expected false"):
        tool("deepspeed").read(deepspeed(bf16={"enabled": True, "bf16_optimizer_states": True}), "ds.json")


def test_what_is_not_compiled_is_timed_so() -> None:
    """torchtitan compiles where it is told to; what the file's plan is compared with is as it is."""
    asked = replace(asked_on(8), recipes=("bf16-fsdp",), words={"stack": "torchtitan"})
    start = "--parallelism.tensor-parallel-degree 1 --training.local-batch-size 1 --training.global-batch-size 64"
    seconds = {}
    for flag, execution in (("", "sdpa"), ("--compile.enable", "compiled")):
        read = tool("torchtitan").read(f"{start} {flag} activation-checkpoint:full", "plan")
        found = plan_of(question_of(asked, read), words_of(asked, read))
        assert found.run.execution == execution
        seconds[execution] = found.seconds
        assert ("--compile.enable" in tool("torchtitan").write(Launch(asked, found.run))) == bool(flag)
    assert seconds["compiled"] < seconds["sdpa"]


def test_a_pipeline_s_schedule_is_read() -> None:
    """torchtitan has two pieces a stage where a schedule of several says nothing of their layers."""
    start = "--parallelism.tensor-parallel-degree 1 --parallelism.pipeline-parallel-degree 4"
    for schedule, interleave in (("1F1B", 1), ("Interleaved1F1B", 2)):
        text = f"{start} --parallelism.pipeline-parallel-schedule {schedule}"
        assert tool("torchtitan").read(text, "plan").words["interleave"] == interleave
    with pytest.raises(Refused, match="pipeline-parallel-schedule: expected one of 1F1B, Interleaved1F1B, GPipe"):
        tool("torchtitan").read(f"{start} --parallelism.pipeline-parallel-schedule ZBVZeroBubble", "plan")
