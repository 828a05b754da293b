"""Plans that compute modules again: searched, held fixed, written and read back as they are timed and weighed alone."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace

import pytest

from calc.architectures.models import load_model
from calc.cli.plan_words import fixed
from calc.errors import Refused
from calc.memory.totals import most_needed, training_ranks
from calc.plan.command import predict_command
from calc.plan.existing import plan_of, question_of, words_of
from calc.plan.export.launch import Launch
from calc.plan.export.registry import tool
from calc.plan.planning import answer
from calc.plan.question import Question, plan_words, short
from calc.plan.space import structures
from calc.spec.clusters import load_cluster
from calc.time import predict
from tests.plan.questions import small_model


def asked(**more: object) -> Question:
    spec, words = small_model(n_experts=4, top_k=2, d_expert=256), {"stack": "megatron-core"}
    return Question(spec, load_cluster("dgx-h100"), (4,), 64, 8, ("bf16-master",), words=words, **more)  # type: ignore[arg-type]


def test_the_search_finds_them_as_they_are_alone() -> None:
    sizes = {"tp": 1, "pp": 1, "zero": 1, "batch": 2, "checkpointing": "none"}
    found = [answer([asked(fixed=sizes | {"recompute": names})], top=100).plans for names in ((), ("moe_act", "moe"))]
    plain = {(plan.run.ep, plan.run.cp): plan for plan in found[0]}
    assert len(found[1]) == len(plain) > 1
    for plan in found[1]:
        spec, other = plan.question.spec, plain[plan.run.ep, plan.run.cp]
        assert plan.seconds == pytest.approx(predict(spec, plan.question.device, plan.run).seconds, rel=1e-9)
        assert plan.peak == most_needed(training_ranks(spec, plan.run)).peak
        kept, others = (training_ranks(spec, each.run)[0].activations.layers for each in (plan, other))
        assert kept < others
        assert plan.seconds > other.seconds
        assert "moe_act+moe" in short(plan.run)


def test_what_no_stack_launches_is_counted_as_such() -> None:
    question = replace(asked(fixed={"recompute": ("moe",)}), words={"stack": "torchtitan"})
    assert not structures(question)[0]


@pytest.mark.parametrize("name", ["megatron-core", "nemo"])
@pytest.mark.parametrize("modules", ["moe", "moe_act", "core_attn+moe_act"])
def test_what_is_fixed_is_written_and_read_back(modules: str, name: str) -> None:
    question = asked(fixed={"tp": 1, "pp": 1, **fixed([("recompute", modules)])})
    (best,) = answer([question], top=1).plans
    assert best.run.recompute == tuple(modules.split("+"))
    command = shlex.split(predict_command(replace(question, model="small"), best.run) or "")
    assert command[command.index("--recompute") + 1] == ",".join(best.run.recompute)
    own = tool(name)
    text = own.write(Launch(question, best.run))
    between = " " if name == "megatron-core" else ","
    assert re.search("recompute.granularity.selective", text)
    assert between.join(best.run.recompute) in text
    read = own.read(text, "plan")
    again = plan_of(question_of(question, read), words_of(question, read))
    assert again.run.again == best.run.again
    assert (again.seconds, again.peak) == (pytest.approx(best.seconds), best.peak)
    assert plan_words(again.run)["checkpointing"] == ("selective" if "core_attn" in modules else "none")


def test_what_the_search_tries() -> None:
    """Sets that recipes name of what the model has and the stack launches, beside nothing else that is recomputed."""

    def tried(question: Question) -> set[tuple[str, str]]:
        kinds = structures(question)[0]
        return {(words["checkpointing"], "+".join(words["recompute"])) for words in kinds if words["recompute"]}

    experts = {("none", "moe_act"), ("none", "layernorm+moe_act"), ("none", "layernorm+moe")}
    assert tried(asked()) == experts
    assert tried(replace(asked(), spec=small_model())) == {("none", "mlp")}
    assert ("none", "mla_up_proj+layernorm+moe_act") in tried(replace(asked(), spec=load_model("deepseek-v3")))
    for name in ("torchtitan", "llama-3", None):
        assert not tried(replace(asked(), words={"stack": name} if name else {}))
    assert not tried(asked(fixed={"checkpointing": "none"})) | tried(asked(fixed={"recompute": ()}))
    assert tried(asked(fixed={"recompute": ("moe",)})) == {("none", "moe"), ("selective", "moe")}


@pytest.mark.parametrize(("name", "flag"), [
    ("megatron-core", "--fp8-recipe tensorwise"), ("nemo", "trainer.plugins.fp8_recipe=tensorwise"),
])  # fmt: skip
def test_fp8_is_not_scaled_by_earlier_steps_beside_them(name: str, flag: str) -> None:
    """Megatron-Core refuses delayed scaling, its usual, beside norms and experts' activations that are made anew."""
    own = tool(name)
    for modules, written in (("moe_act", True), ("moe", False)):
        question = replace(asked(fixed={"recompute": (modules,), "tp": 1, "pp": 1}), recipes=("fp8",))
        (best,) = answer([question], top=1).plans
        text = own.write(Launch(question, best.run))
        assert (flag in text) == written
        assert own.read(text, "plan").words["recompute"] == (modules,)
        without = text.replace(flag, "")
        if written:
            with pytest.raises(Refused, match=r"fp8.recipe: expected tensorwise, or another but delayed"):
                own.read(without, "plan")


def test_what_is_refused() -> None:
    with pytest.raises(Refused, match="--fix recompute: expected one of core_attn, mlp"):
        fixed([("recompute", "everything")])
    with pytest.raises(Refused, match="--fix recompute: expected checkpointing none or selective beside it"):
        asked(fixed={"recompute": ("moe",), "checkpointing": "full"})
