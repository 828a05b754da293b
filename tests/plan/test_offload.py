"""Plans with the optimizer on the host: where asked, where nothing else fits, and where a machine can hold it."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from typing import Any

import pytest

import calc
from calc.errors import Refused
from calc.memory.totals import memory_ranks
from calc.memory.training import TrainingRank
from calc.plan.command import predict_command
from calc.plan.existing import plan_of, question_of, words_of
from calc.plan.export.launch import Launch
from calc.plan.export.registry import tool
from calc.plan.minimum import least_that_works
from calc.plan.planning import answer, search_plans
from calc.plan.question import CHOICES, Question, short
from calc.quantities.parameters import parameters
from calc.spec.clusters import load_cluster
from calc.time import predict
from tests.plan.brute import every_plan
from tests.plan.questions import question, small_model

MEGATRON = {"stack": "megatron-core"}
PARTS = CHOICES["offload_fraction"]


def one_gpu(gpus: tuple[int, ...] = (1,), **more: Any) -> Question:
    """8 billion parameters on one H100, which holds no 18 bytes of each."""
    usual: dict[str, Any] = {"recipes": ("bf16-master",), "words": MEGATRON, "at_most": {"batch": 1}}
    return Question(calc.load_model("llama-3-8b"), load_cluster("dgx-h100"), gpus, 4096, 64, **(usual | more))


def test_it_is_listed_where_asked_and_a_plan_alone_has_the_same_numbers() -> None:
    spec = calc.load_model("llama-3-8b")
    words: dict[str, Any] = {"stack": "megatron-core", "top": 3, "at_most": {"batch": 2}}
    asked = search_plans(spec, "dgx-h100", 8, 4096, 2**18, fixed={"offload": "optimizer"}, **words)
    others = search_plans(spec, "dgx-h100", 8, 4096, 2**18, **words)
    assert {plan.run.offload for plan in others.plans} == {"none"}
    assert asked.plans
    for plan, record in zip(asked.plans, asked.records(), strict=True):
        assert (plan.run.offload, record["plan"]["offload"]) == ("optimizer", "optimizer")
        assert record["plan"]["offload_fraction"] == plan.run.offload_fraction
        assert plan.run.zero == 1 or plan.run.dp * plan.run.cp == 1
        assert predict(spec, plan.question.device, plan.run).seconds == pytest.approx(plan.value, rel=1e-9)
        ranks = [rank for rank in memory_ranks(spec, plan.run) if isinstance(rank, TrainingRank)]
        assert record["memory_host"] == max(rank.states.host for rank in ranks) > 0
        assert record["memory_host_at_most"] == max(rank.states.host + rank.states.pinned for rank in ranks)
        assert "--offload optimizer" in record["command"]


def test_the_best_is_the_best_of_all() -> None:
    """Of a space that the stack's launcher does not narrow."""
    fixed: dict[str, Any] = {"schedule": "1f1b", "checkpointing": "none", "sequence_parallel": True, "interleave": 1}
    fixed |= {"offload": "optimizer", "offload_fraction": 0.5}
    asked = question(small_model(n_layers=2), sequences=4, words=MEGATRON, fixed=fixed)
    alone = []
    for each in every_plan(asked):
        words = dict(each.words)
        plain = words["checkpointing"] == "none" and words["interleave"] == 1 and "sequence_parallel" not in words
        even = any(layers % words["pp"] == 0 for layers in (asked.spec.n_layers, asked.spec.n_layers + 2))
        if plain and even:
            alone.append(each.seconds)
    found = answer([asked], top=5)
    assert found.timed == len(alone) > 5
    assert [plan.seconds for plan in found.plans] == pytest.approx(sorted(alone)[: len(found.plans)], rel=1e-12)


def test_it_is_looked_at_where_nothing_else_fits() -> None:
    found = answer([one_gpu()], top=1)
    (plan,) = found.plans
    assert (plan.run.offload, plan.fits) == ("optimizer", True)
    assert found.ruled["memory"] > 0
    assert not answer([one_gpu(fixed={"offload": "none"})]).plans
    assert not answer([one_gpu(words={"stack": "fsdp2"}, recipes=("bf16-fsdp",))]).plans


def test_the_least_that_works_may_have_it_there() -> None:
    """Two GPUs hold no 70 billion parameters' states; of those that are tried the fewest that do keep them on the host,
    more where nothing may stand there."""
    spec = calc.load_model("llama-3-70b")
    usual: dict[str, Any] = {"recipes": ("bf16-master",), "words": MEGATRON, "at_most": {"batch": 1}}
    asked = Question(spec, load_cluster("dgx-h100"), (2,), 4096, 64, **usual)
    there = replace(asked, fixed={"offload": "none"})
    enough = [re.findall(r"(\d+) GPUs would", least_that_works(each, answer([each]))) for each in (asked, there)]
    fewer, more = (int(found) for (found,) in enough)
    assert answer([replace(asked, gpus=(fewer,))], top=1).plans[0].run.offload == "optimizer"
    assert fewer < more


def test_a_part_of_it_is_looked_at() -> None:
    """On two GPUs a quarter on the host leaves no recomputation, and updates there what takes least; each part alone
    is found again, and says so."""
    asked = one_gpu(gpus=(2,), fixed={"offload": "optimizer", "dp": 2})
    each = {part: answer([replace(asked, fixed={**asked.fixed, "offload_fraction": part})], top=1) for part in PARTS}
    seconds = {part: found.plans[0].seconds for part, found in each.items() if found.plans}
    (best,) = answer([asked], top=1).plans
    assert len(seconds) > 1
    assert best.seconds == min(seconds.values()) == seconds[best.run.offload_fraction]
    assert best.run.offload_fraction < 1
    assert f"offload:optimizer/{best.run.offload_fraction:g}" in short(best.run)
    with pytest.raises(Refused, match="--fix offload_fraction: expected --fix offload=optimizer beside it"):
        one_gpu(fixed={"offload_fraction": 0.5})


def test_a_machine_must_hold_it() -> None:
    """24 bytes a parameter of 8 billion at most: 193 GB, twice that where two GPUs of a machine hold as much; what has
    no room for all has it for three quarters."""
    asked = one_gpu(fixed={"offload": "optimizer", "offload_fraction": 1})
    host = asked.cluster.host
    assert host is not None
    hosts = (host.model_copy(update={"memory": gigabytes * 10**9}) for gigabytes in (193, 192))
    enough, little = (replace(asked, cluster=asked.cluster.model_copy(update={"host": each})) for each in hosts)
    assert answer([enough]).plans
    found = answer([little])
    assert not found.plans
    assert found.ruled["host"] > 0
    line = "nothing fits: a machine of dgx-h100 has no more than 179 GiB for what each GPU keeps on the host; 16 "
    assert least_that_works(little, found).startswith(line)
    parts = answer([replace(little, fixed={"offload": "optimizer"})], top=3).plans
    assert {plan.run.offload_fraction for plan in parts} == {0.75}
    assert enough.host_holds(96 * 10**9, 2)
    assert not enough.host_holds(97 * 10**9, 2)
    assert not enough.host_holds(97 * 10**9, 64)


def test_a_cluster_that_does_not_say_what_its_machines_hold_is_refused() -> None:
    cluster = load_cluster("dgx-b300")
    with pytest.raises(Refused, match="--fix offload: expected none on a cluster"):
        replace(one_gpu(fixed={"offload": "optimizer"}), cluster=cluster)
    with pytest.raises(Refused, match="--fix offload=VALUE"):
        one_gpu(words=MEGATRON | {"offload": "optimizer"})


def test_flags_of_megatron_core() -> None:
    """Those that its arguments ask for together (megatron/training/arguments.py), read back as they were written."""
    asked = one_gpu()
    (plan,) = answer([asked], top=1).plans
    text = tool("megatron-core").write(Launch(asked, plan.run.changed(offload_fraction=0.5)))
    words = shlex.split(text.replace("\\\n", " "))
    assert words[words.index("--optimizer-offload-fraction") + 1] == "0.5"
    flags = ("--optimizer-cpu-offload", "--overlap-cpu-optimizer-d2h-h2d", "--use-precision-aware-optimizer")
    assert {*flags, "--use-distributed-optimizer"} <= set(words)
    read = tool("megatron-core").read(text, "plan")
    assert read.unread == ()
    again = plan_of(question_of(asked, read), words_of(asked, read))
    assert (again.run.offload, again.run.offload_fraction) == ("optimizer", 0.5)
    half = sum(rank.states.host for rank in memory_ranks(asked.spec, again.run) if isinstance(rank, TrainingRank))
    assert half == 8 * sum(parameters(asked.spec).values())
    for flag in flags[1:]:
        with pytest.raises(Refused, match=flag):
            tool("megatron-core").read(text.replace(flag, ""), "plan")
    with pytest.raises(Refused, match="a part above 0"):
        tool("megatron-core").read(text.replace("-fraction 0.5", "-fraction some"), "plan")


def test_activations_wait_on_the_host_where_asked() -> None:
    """The best is the best of all, by `predict` and `memory` alone; pipelines are ruled out."""
    fixed = {"schedule": "1f1b", "offload": "activations", "interleave": 1, "ep": 1}
    asked = question(small_model(n_layers=2), sequences=4, fixed=fixed)
    alone = sorted(each.seconds for each in every_plan(asked))
    found = answer([asked], top=5)
    assert found.timed == len(alone) > 5
    assert [plan.seconds for plan in found.plans] == pytest.approx(alone[: len(found.plans)], rel=1e-12)
    assert found.ruled["offload"] > 0
    assert not found.unread
    for plan, record in zip(found.plans, found.records(), strict=True):
        (rank,) = memory_ranks(asked.spec, plan.run)
        assert isinstance(rank, TrainingRank)
        assert (record["memory_host"], record["memory_host_at_most"]) == (rank.host, rank.host_at_most)
        assert rank.host > 0
        assert (record["plan"]["offload"], record["plan"]["offload_fraction"]) == ("activations", None)


def test_layers_of_megatron_core_whose_activations_wait() -> None:
    """All but one at most, as its configuration asks for, or fewer, which a plan may need; without recomputation."""
    spec, cluster = calc.load_model("llama-3-8b"), load_cluster("dgx-h100")
    words = {"cluster": cluster, "at_most": {"batch": 1}, "fixed": {"offload": "activations"}, "words": MEGATRON}
    asked = Question(spec, gpus=(8,), seq=4096, sequences=64, recipes=("bf16-master",), **words)
    found = answer([asked], top=3)
    assert {(plan.run.offload, plan.run.checkpointing, plan.run.pp) for plan in found.plans} == {
        ("activations", "none", 1)
    }
    assert all(plan.run.offload_layers in (None, 30, 24, 16, 8) for plan in found.plans)
    few = replace(asked, fixed={**asked.fixed, "offload_layers": 30})
    assert found.listed == 5 * answer([few], top=1).listed
    for layers in (None, 16):
        one = replace(asked, fixed={**asked.fixed, "offload_layers": layers}, place="dgx-h100")
        (best, *_) = answer([one], top=1).plans
        assert best.value >= found.plans[0].value
        line = str(predict_command(one, best.run))
        assert ("--offload activations" in line, "--offload-layers 16" in line) == (True, layers == 16)
        assert ("offload:activations/16" in short(best.run)) == (layers == 16)
        text = tool("megatron-core").write(Launch(one, best.run))
        assert f"--cpu-offloading-num-layers {layers or 31}" in text
        again = plan_of(one, words_of(one, tool("megatron-core").read(text, "plan")))
        assert (again.run.offload_layers, again.seconds) == (layers, pytest.approx(best.seconds, rel=1e-12))
        assert again.host == best.host > 0
    most = tool("megatron-core").read(text.replace("layers 16", "layers 32"), "plan")
    with pytest.raises(Refused, match="offload_layers: expected 1 to 31"):
        plan_of(asked, words_of(asked, most))
    with pytest.raises(Refused, match="none beside --optimizer-cpu-offload"):
        tool("megatron-core").read(f"{text.strip()} --optimizer-cpu-offload", "plan")


def test_inputs_of_layers_that_deepspeed_has_on_the_host() -> None:
    fixed = {"offload": "activations", "zero": 3}
    spec, cluster, words = calc.load_model("llama-3-8b"), load_cluster("dgx-h100"), {"stack": "deepspeed"}
    asked = Question(spec, cluster, (8,), 8192, 64, ("bf16-zero",), fixed=fixed, at_most={"batch": 1}, words=words)
    found = answer([asked], top=3)
    assert {(plan.run.offload, plan.run.checkpointing) for plan in found.plans} == {("activations", "full")}
    text = tool("deepspeed").write(Launch(asked, found.plans[0].run))
    document = json.loads(text)
    assert document["activation_checkpointing"]["cpu_checkpointing"] is True
    read = tool("deepspeed").read(text, "ds.json")
    again = plan_of(question_of(asked, read), words_of(asked, read))
    assert again.seconds == pytest.approx(found.plans[0].seconds, rel=1e-12)
    assert (
        again.host_at_most == 2 * again.host == 2 * 31 * 8192 * 4096 * 2
    )  # all inputs of 32 layers but the last, in bf16
    document["activation_checkpointing"]["partition_activations"] = True
    with pytest.raises(Refused, match="partition_activations: expected false"):
        tool("deepspeed").read(json.dumps(document), "ds.json")


@pytest.mark.parametrize("name", ["offload_optimizer", "offload_param"])
def test_what_deepspeed_and_accelerate_keep_on_the_host_is_refused(name: str) -> None:
    document: dict[str, Any] = {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 2}
    document |= {"train_batch_size": 16, "bf16": {"enabled": True}}
    zero = {"stage": 2, name: {"device": "cpu", "pin_memory": True}}
    with pytest.raises(Refused, match=f"{name}: expected none"):
        tool("deepspeed").read(json.dumps(document | {"zero_optimization": zero}), "ds.json")
    zero[name] = {"device": "none"}
    assert tool("deepspeed").read(json.dumps(document | {"zero_optimization": zero}), "ds.json").words["zero"] == 2
    its = {"fsdp_version": 2, "fsdp_offload_params": True}
    fsdp = {"distributed_type": "FSDP", "mixed_precision": "bf16", "fsdp_config": its}
    with pytest.raises(Refused, match="fsdp_offload_params"):
        tool("accelerate").read(json.dumps(fsdp), "fsdp.json")
