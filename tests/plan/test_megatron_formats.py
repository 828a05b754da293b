"""Formats of moments and gradients in Megatron-Core's flags: read as written, and refused where nothing has them."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest

import calc
from calc.errors import Refused
from calc.plan.command import predict_command
from calc.plan.existing import plan_of, question_of, words_of
from calc.plan.export.launch import Launch
from calc.plan.export.registry import TOOLS, tool
from calc.plan.planning import answer
from calc.plan.question import Question
from calc.quantities.parameters import parameters
from calc.spec.clusters import load_cluster
from calc.spec.run.narrow_weights import FP8_RECIPES
from calc.spec.run.optimizers import OPTIMIZER_BY_NAME
from calc.spec.run.precision import GRADIENT_DTYPES, summed_in

START = "torchrun pretrain_gpt.py --micro-batch-size 1 --global-batch-size 16 --use-distributed-optimizer --bf16"
NARROW = "--use-precision-aware-optimizer --exp-avg-dtype bf16 --exp-avg-sq-dtype bf16"
ASKED = Question(
    calc.load_model("gpt2"),
    load_cluster("dgx-h100"),
    (8,),
    1024,
    16,
    ("bf16-master",),
    words={"stack": "megatron-core"},
)


def reserved(flags: str) -> int:
    read = tool("megatron-core").read(f"{START} {flags}", "plan")
    asked = question_of(ASKED, read)
    return plan_of(asked, words_of(asked, read)).peak


AWARE = "--use-precision-aware-optimizer"


def test_narrow_moments_take_half_and_narrow_gradients_too() -> None:
    """Over eight ranks 4 bytes a parameter less, and 2 of the copy in fp32; and 2 of every rank's own gradients."""
    weights = sum(parameters(ASKED.spec).values())
    assert reserved("") - reserved(NARROW) == pytest.approx((4 + 2) * weights / 8, abs=16)
    assert reserved("") - reserved(AWARE) == pytest.approx(2 * weights / 8, abs=16)
    assert reserved("") - reserved("--grad-reduce-in-bf16") == pytest.approx(2 * weights, abs=16)


@pytest.mark.parametrize("said", ["--main-grads-dtype bf16", "--grad-reduce-in-bf16"])
def test_narrow_gradients_beside_moments_in_fp32_are_not_copied(said: str) -> None:
    """megatron/training/arguments.py sums in bf16 where --main-grads-dtype says so, and the optimizer reads that."""
    read = tool("megatron-core").read(f"{START} {AWARE} {said}", "plan")
    assert read.unread == ()
    asked = question_of(ASKED, read)
    run = plan_of(asked, words_of(asked, read)).run
    assert (run.precision.gradients, run.usual_optimizer, run.gradient_copy) == ("bf16", "adamw", "none")
    assert run.changed(precision_aware=False).gradient_copy == "beside"
    again = tool("megatron-core").read(tool("megatron-core").write(Launch(asked, run)), "plan")
    assert question_of(ASKED, again).words == asked.words


def test_nemo_says_both_formats_of_gradients() -> None:
    """OptimizerConfig's alone sums nothing in NeMo, whose precision plugin says in which format they are."""
    start = "trainer.strategy.tensor_model_parallel_size=1 optim.config.use_precision_aware_optimizer=True"
    narrow, summed = "optim.config.main_grads_dtype=torch.bfloat16", "trainer.plugins.grad_reduce_in_fp32=False"
    words = tool("nemo").read(f"{start} {narrow} {summed}", "plan").words
    assert (words["recipe"], words["precision_aware"]) == ("bf16-zero", True)
    with pytest.raises(Refused, match=r"main_grads_dtype: expected torch\.float32 of gradients that are summed so"):
        tool("nemo").read(f"{start} {narrow}", "plan")


def test_what_is_compared_has_the_file_s_optimizer() -> None:
    read = tool("megatron-core").read(f"{START} {NARROW}", "plan")
    assert read.unread == ()
    assert question_of(ASKED, read).words["optimizer"] == "adamw-bf16"


@pytest.mark.parametrize("flags", [NARROW, "--grad-reduce-in-bf16", f"{NARROW} --grad-reduce-in-bf16"])
def test_what_was_written_is_read_again(flags: str) -> None:
    megatron = tool("megatron-core")
    read = megatron.read(f"{START} {flags}", "plan")
    asked = question_of(ASKED, read)
    run = plan_of(asked, words_of(asked, read)).run
    text = megatron.write(Launch(asked, run))
    assert set(flags.split()) <= set(shlex.split(text.replace("\\\n", " ")))
    again = megatron.read(text, "plan").words
    assert (again["recipe"], again.get("optimizer")) == (run.recipe, read.words.get("optimizer"))


@pytest.mark.parametrize(
    ("flags", "field"),
    [
        (NARROW.replace("bf16", "fp8"), "--exp-avg-dtype: expected fp32 or bf16"),
        (NARROW.replace("sq-dtype bf16", "sq-dtype fp32"), "--exp-avg-dtype: expected .* found bf16 and fp32"),
        ("--exp-avg-dtype bf16 --exp-avg-sq-dtype bf16", "fp32 without --use-precision-aware-optimizer"),
        ("--main-grads-dtype bf16", "--main-grads-dtype: expected fp32 without --use-precision-aware-optimizer"),
        (f"{AWARE} --main-grads-dtype fp16", "--main-grads-dtype: expected fp32 or bf16, found fp16"),
        (
            f"{AWARE} --main-grads-dtype bf16 --accumulate-allreduce-grads-in-fp32",
            "--main-grads-dtype: expected fp32 beside --accumulate-allreduce-grads-in-fp32",
        ),
        ("--use-precision-aware-optimizer --main-params-dtype fp16", "--main-params-dtype: expected fp32"),
        ("--fp8-param-gather", "--fp8-param-gather: expected none without --fp8-format"),
        ("--fp8-format e4m3 --fp8-recipe custom", "--fp8-recipe: expected one of delayed, tensorwise"),
        (
            "--fp8-format e4m3 --fp8-recipe mxfp8 --fp8-param-gather",
            "--reuse-grad-buf-for-mxfp8-param-ag: expected given",
        ),
    ],
)
def test_formats_that_are_not_described_are_refused(flags: str, field: str) -> None:
    with pytest.raises(Refused, match=field):
        tool("megatron-core").read(f"{START} {flags}", "plan")


@pytest.mark.parametrize("gathers", [True, False])
@pytest.mark.parametrize("scaling", [None, *FP8_RECIPES])
@pytest.mark.parametrize(("name", "zero"), [("megatron-core", 1), ("megatron-core", 3), ("nemo", 1)])
def test_matrices_in_fp8_are_written_and_read(name: str, scaling: str | None, gathers: bool, zero: int) -> None:
    own = tool(name)
    said = {"fp8_param_gather": True} if gathers else {}
    said |= {} if scaling is None else {"fp8_recipe": scaling}
    place = load_cluster("dgx-b200")
    asked = replace(ASKED, cluster=place, recipes=("fp8",), words={**own.words, **said})
    run = plan_of(asked, {"recipe": "fp8", "zero": zero, "dp": 8}).run
    text = own.write(Launch(asked, run))
    read = own.read(text, "plan")
    assert read.unread == ()
    plain = replace(asked, words=own.words)
    again = plan_of(question_of(plain, read), words_of(plain, read)).run
    assert again.narrow_weights == run.narrow_weights
    assert (again.fp8_recipe, again.fp8_param_gather) == (scaling or "delayed", gathers)
    assert ("reuse" in text) == (gathers and scaling == "mxfp8" and zero < 3)
    line = predict_command(asked, run) or ""
    assert ("--fp8-param-gather" in line, f"--fp8-recipe {scaling}" in line) == (gathers, scaling is not None)


@pytest.mark.parametrize(("name", "text"), [("megatron-core", f"{START} --fp8-format hybrid"), ("megatron-core", START),
    ("nemo", "trainer.strategy.tensor_model_parallel_size=1 trainer.plugins.fp8=hybrid"),
    ("nemo", "trainer.strategy.tensor_model_parallel_size=1")])  # fmt: skip
def test_what_a_file_leaves_off_is_off_whatever_is_asked_beside(name: str, text: str) -> None:
    """A question that has them all of plans in fp8, and of those in bf16 what these go with."""
    read = tool(name).read(text, "plan")
    said: dict[str, object] = {"optimizer": "adamw-foreach", "gradient_dtype": "bf16"}
    if "fp8" in text:
        said |= {"fp8_param_gather": True, "fp8_recipe": "blockwise"}
    plain = replace(ASKED, recipes=(read.words["recipe"],))
    asked = replace(plain, words={**ASKED.words, **said})
    aware = replace(plain, words={**ASKED.words, "precision_aware": True})
    expected = plan_of(question_of(plain, read), words_of(plain, read))
    for other in (asked, aware):
        question = question_of(other, read)
        found = plan_of(question, words_of(other, read))
        assert (found.run, found.peak) == (expected.run, expected.peak)
        assert "None" not in (predict_command(question, found.run) or "")


@pytest.mark.parametrize(("name", "text"), [
    ("megatron-core", START.replace("--use-distributed-optimizer", AWARE)),
    ("nemo", "trainer.strategy.tensor_model_parallel_size=1 optim.config.use_distributed_optimizer=False "
     "optim.config.use_precision_aware_optimizer=True"),
])  # fmt: skip
def test_an_optimizer_that_asks_to_be_divided_is_not_read_without(name: str, text: str) -> None:
    with pytest.raises(Refused, match=r"use.precision.aware.optimizer: expected none without .*distributed.optimizer"):
        tool(name).read(text, "plan")


@pytest.mark.parametrize("modules", [("moe_act",), ("layernorm",), ("moe",)])
def test_a_plan_is_counted_with_the_scaling_that_is_written(modules: tuple[str, ...]) -> None:
    """Where delayed scaling does not go with it, Megatron-Core's optimizer keeps the wider copy of weights itself."""
    own = tool("megatron-core")
    words = {**own.words, "precision_aware": True}
    asked = replace(ASKED, spec=calc.load_model("qwen3-30b-a3b"), recipes=("fp8",), words=words)
    run = plan_of(asked, {"recipe": "fp8", "zero": 1, "dp": 8, "recompute": modules}).run
    read = own.read(own.write(Launch(asked, run)), "plan")
    again = plan_of(question_of(asked, read), words_of(asked, read)).run
    assert again.fp8_recipe == run.usual_fp8_recipe == ("delayed" if modules == ("moe",) else "tensorwise")
    assert again.aware == run.aware == (modules == ("moe",))


@pytest.mark.parametrize("name", sorted(TOOLS))
def test_formats_that_a_file_does_not_say_are_not_written(name: str) -> None:
    """What it says in their place is another plan, of other memory and time."""
    read = tool("megatron-core").read(START, "plan")
    run = plan_of(ASKED, words_of(ASKED, read)).run
    for recipe in ("fp32", "fp16-mixed", "bf16", "nvfp4"):
        with pytest.raises(Refused, match=f"recipe: expected one of .* in files of {name}, found {recipe}"):
            tool(name).write(Launch(ASKED, run.changed(recipe=recipe)))


ZERO = {"fsdp2": 3, "deepspeed": 2}
"""Stack -> a stage of ZeRO at which it sums gradients in either format; 1 of others."""
SUMMED = {"accelerate": ("bf16",), "torchtitan": ("fp32",)}
"""Tool -> formats of gradients that its files can say, where they are not both."""


@pytest.mark.parametrize("recipe", [0, -1])
@pytest.mark.parametrize("summed", GRADIENT_DTYPES)
@pytest.mark.parametrize("name", sorted(TOOLS))
def test_formats_of_gradients_are_written_and_read_or_refused(name: str, summed: str, recipe: int) -> None:
    own = tool(name)
    asked = replace(ASKED, recipes=(own.recipes[recipe],), words={**own.words, "gradient_dtype": summed})
    run = plan_of(asked, {"recipe": own.recipes[recipe], "zero": ZERO.get(own.stack or "", 1), "dp": 8}).run
    if summed not in SUMMED.get(name, GRADIENT_DTYPES):
        with pytest.raises(Refused, match="gradient_dtype: expected one of "):
            own.check(asked)
        with pytest.raises(Refused, match="gradient_dtype: expected one of "):
            own.write(Launch(asked, run))
        return
    own.check(asked)
    read = own.read(own.write(Launch(asked, run)), "plan")
    assert read.unread == ()
    its = summed_in(read.words["recipe"], read.words.get("gradient_dtype"))
    for part in ("weights", "gradients", "summed", "master", "inputs"):
        assert getattr(its, part) == getattr(run.precision, part)


SAID = {
    "accelerate": None,
    "deepspeed": {"adamw", "adamw-foreach", "lion"},
    "fsdp2": None,
    "megatron-core": {"adamw", "adamw-bf16"},
    "nemo": {"adamw"},
    "torchtitan": {"adamw", "adamw-foreach", "adamw-bf16"},
}
"""Tool -> optimizers that its files can say; None: any, or none, as accelerate's, which leave that to the program."""


@pytest.mark.parametrize("name", sorted(TOOLS))
def test_optimizers_are_written_and_read_or_refused(name: str) -> None:
    """What a file does not say it leaves to the program, which is told."""
    own = tool(name)
    asked = replace(ASKED, recipes=own.recipes[:1], words=own.words)
    run = plan_of(asked, {"recipe": own.recipes[0], "zero": ZERO.get(own.stack or "", 1), "dp": 8}).run
    for optimizer in OPTIMIZER_BY_NAME:
        saying = replace(asked, words={**asked.words, "optimizer": optimizer})
        launch = Launch(saying, run.changed(optimizer=optimizer))
        if SAID[name] is not None and optimizer not in SAID[name]:
            with pytest.raises(Refused, match="optimizer: expected "):
                own.check(saying)
            with pytest.raises(Refused, match="optimizer: expected "):
                own.write(launch)
            continue
        own.check(saying)
        read = own.read(own.write(launch), "plan")
        assert read.unread == ()
        left = own.left_to_program(launch)
        assert ("optimizer" in left) == (name == "accelerate")
        assert left.get("optimizer", read.words.get("optimizer", "adamw")) == optimizer


def test_moments_in_bf16_that_every_rank_has_whole() -> None:
    """Megatron-Core's precision-aware optimizer is a distributed one: no such plan is listed, or written."""
    asked = replace(ASKED, words={**ASKED.words, "optimizer": "adamw-bf16"}, fixed={"zero": 0, "dp": 8})
    assert not answer([asked], top=1).plans
    assert answer([replace(asked, words=ASKED.words)], top=1).plans
    run = plan_of(ASKED, {"recipe": "bf16-master"}).run
    with pytest.raises(Refused, match="zero: expected 1 or more with moments in bf16"):
        tool("megatron-core").write(Launch(ASKED, run.changed(optimizer="adamw-bf16", zero=0)))
