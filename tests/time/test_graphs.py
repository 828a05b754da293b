"""What CUDA graphs launch in a step of training: kernels that no host launches do not wait for one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from calc.architectures.models import load_model
from calc.errors import Refused
from calc.plan.question import Question
from calc.plan.space import structures
from calc.spec.catalogue import load_device
from calc.spec.clusters import load_cluster
from calc.spec.run import Run
from calc.spec.stack import load_stack
from calc.time import Prediction, predict
from calc.time.cluster.stacks import graphs_tell
from calc.time.step.notes import GRAPHS


def _step(model: str, **words: Any) -> Prediction:
    plan = {"stack": "megatron-core", "cluster": "dgx-b200", "dp": 8, "micro_batches": 2, "zero": 1, "seq": 4096}
    return predict(load_model(model), "b200", phase="training", **{"recipe": "fp8"} | plan | words)


def test_a_graph_of_the_step_leaves_no_gaps_in_dense_models() -> None:
    """Of every kernel that a host launches a gap, which a graph of all does not have."""
    by_host, by_graph = (_step("llama-3-8b", graphs=graphs) for graphs in ("none", "step"))
    launched = (by_host.seconds - by_graph.seconds) / load_stack("megatron-core").fitted.kernel
    assert launched == pytest.approx(round(launched), abs=1e-3)
    assert launched > 1000


def _launched(graphs: str) -> float:
    """Kernels of a step of Qwen3-30B that a host launches, by what they add to one that a graph launches: the squares
    of the host's seconds and of the device's add up."""
    stack = load_stack("megatron-core")
    by_host, by_graph = (_step("qwen3-30b-a3b", ep=8, graphs=each) for each in (graphs, "step"))
    device = by_graph.by_component["overhead"] / (1 - 1 / stack.computing(load_device("b200"), True))
    both = device + by_host.seconds - by_graph.seconds
    assert stack.fitted.experts is not None
    return (both**2 - device**2) ** 0.5 / stack.fitted.experts


def test_a_host_launches_a_part_of_each_layer_and_graphs_the_rest() -> None:
    """48 layers, two micro-batches, forward and back: a router's kernels are few beside those of 16 experts a rank."""
    found = {graphs: _launched(graphs) for graphs in ("none", "routers", "attention")}
    assert found["none"] > found["routers"] > found["attention"]
    # What remains by a host are 16 experts' products: gate and up as one and down, forward, and each twice back.
    experts = 2 * 48 * 16 * (2 + 2 * 2)
    assert experts < found["attention"] < 1.2 * experts
    for launched in found.values():
        assert launched == pytest.approx(round(launched), abs=1e-3)


def test_a_stack_says_what_a_run_does_not() -> None:
    newer, older = (_step("qwen3-30b-a3b", ep=8, stack=f"megatron-core{v}", graphs="step") for v in ("-0.18", ""))
    assert _step("qwen3-30b-a3b", ep=8, stack="megatron-core-0.18").seconds == newer.seconds
    assert newer.seconds != older.seconds
    assert _step("qwen3-30b-a3b", ep=8).seconds == _step("qwen3-30b-a3b", ep=8, graphs="none").seconds
    with pytest.raises(Refused, match="graphs: expected one of none, routers, attention, step"):
        Run(graphs="layers")


def test_what_graphs_hold_is_said_not_to_be_counted() -> None:
    with_graphs, without = (_step("qwen3-30b-a3b", ep=8, graphs=graphs) for graphs in ("attention", "none"))
    assert GRAPHS in with_graphs.notes
    assert GRAPHS not in without.notes


@pytest.mark.parametrize(
    ("model", "stack", "graphs", "tell"),
    [
        ("llama-3-8b", "megatron-core", "routers", False),
        ("llama-3-8b", "megatron-core", "attention", True),
        ("qwen3-30b-a3b", "megatron-core", "routers", True),
        ("qwen3-30b-a3b", "fsdp2", "step", False),
    ],
)
def test_graphs_that_change_nothing_are_said_to(model: str, stack: str, graphs: str, tell: bool) -> None:
    """Where a stack's hosts run ahead, and of routers where there are none: the same seconds."""
    run = Run(mode="training", stack=stack, graphs=graphs)
    assert graphs_tell(load_model(model), run) is tell
    words = {"stack": stack, "ep": 8 if model == "qwen3-30b-a3b" else 1, "recipe": "bf16-mixed"}
    plain, told = (_step(model, graphs=each, **words).seconds for each in ("none", graphs))
    assert (told < plain) is tell


@pytest.mark.parametrize("graphs", ["routers", "attention"])
def test_layers_that_run_again_whole_are_captured_by_a_graph_of_the_step_alone(graphs: str) -> None:
    """Megatron-Core: full recompute is only supported with full iteration CUDA graphs."""
    with pytest.raises(Refused, match="graphs: expected none or step beside full checkpointing"):
        _step("qwen3-30b-a3b", ep=8, graphs=graphs, checkpointing="full")
    assert _step("qwen3-30b-a3b", ep=8, graphs="step", checkpointing="full").seconds > 0
    asked = Question(load_model("gpt2"), load_cluster("dgx-h100"), (8,), 1024, 64, ("bf16-master",))
    kinds, _ = structures(replace(asked, words={"stack": "megatron-core", "graphs": graphs}))
    assert {words["checkpointing"] for words in kinds} == {"none", "selective"}
