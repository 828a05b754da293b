"""What stacks hide, send and launch: by closed forms."""

from __future__ import annotations

from math import comb
from typing import Any

import pytest

from calc.architectures.models import load_model
from calc.spec.catalogue import load_device
from calc.spec.run import Run
from calc.spec.stack import Overlap, Stack, load_stack
from calc.time import predict
from calc.time.cluster.crossing import cores_left
from calc.time.cluster.links import links_of
from calc.time.device.speed_of import speed_of
from calc.time.kernels.kernel import Send
from calc.time.kernels.timing import LEVEL
from calc.time.step.network import between_ops, hides
from calc.time.step.one_pass import Question, passes
from calc.time.step.timed_run import timed_run

QWEN = load_model("qwen3-30b-a3b")
EVENLY = {"phase": "training", "cluster": "dgx-h100", "seq": 4096, "checkpointing": "none"}


def changed(**fields: Any) -> Stack:
    return load_stack("megatron-core").model_copy(update=fields)


def exchanged(name: str, stack: Stack, **words: Any) -> list[float]:
    """Bytes of each exchange of a model's experts."""
    spec = load_model(name)
    run = timed_run(spec, None, **{**EVENLY, "stack": stack, **words})
    sent = (kernel.shape for kernel in between_ops(spec, run, links_of(run, None)) if kernel.path.endswith("experts"))
    return [float(shape.bytes) for shape in sent if isinstance(shape, Send)]


@pytest.mark.parametrize("ranks", [2, 8, 64])
def test_a_token_goes_once_to_each_rank_of_its_experts(ranks: int) -> None:
    """8 of 128 experts miss a rank where all are among those of the others."""
    once, each = (exchanged("qwen3-30b-a3b", changed(once_a_rank=way), dp=64, ep=ranks) for way in (True, False))
    part = ranks * (1 - comb(128 - 128 // ranks, 8) / comb(128, 8)) / 8
    assert once == pytest.approx([size * part for size in each])


def test_a_router_of_groups_reaches_their_ranks_alone() -> None:
    """DeepSeek-V3 picks 8 of the 128 experts in 4 of 8 groups: of 64 ranks with 4 each those of half, 32. The module
    for a further token routes as layers do, and sends as much."""
    once, each = (exchanged("deepseek-v3", changed(once_a_rank=way), dp=64, ep=64) for way in (True, False))
    part = 32 * (1 - comb(124, 8) / comb(128, 8)) / 8
    assert once == pytest.approx([size * part for size in each])
    further = exchanged("deepseek-v3", changed(once_a_rank=True), dp=64, ep=64, mtp=True)
    assert further == pytest.approx(once * 2)


def launched(stack: Stack, **words: Any) -> float:
    run = timed_run(QWEN, None, **{**EVENLY, "stack": stack, **words})
    asked = Question(QWEN, speed_of("h100-sxm"), "", ("forward", "backward"), LEVEL)
    return sum(map(float, passes(asked, [run])[0].sums.launched.values()))


@pytest.mark.parametrize(("ranks", "experts"), [(8, 16), (64, 2)])
def test_each_expert_has_products_of_its_own(ranks: int, experts: int) -> None:
    """Gate and up joined, and down: two forward and four back for each expert, of 48 layers."""
    alone, grouped = (launched(changed(product_an_expert=way), dp=64, ep=ranks) for way in (True, False))
    assert alone - grouped == pytest.approx(48 * 6 * (experts - 1))


def test_messages_of_a_pipeline_are_hidden_whether_or_not_gradients_are() -> None:
    """Without data-parallel ranks nothing is left that the one could change of the other."""
    words = {"pp": 4, "interleave": 2, "micro_batches": 8, **EVENLY}
    spec = load_model("llama-3-8b")
    stacks = [changed(overlap=Overlap(data=data, tensor=True)) for data in (True, False)]
    both = [predict(spec, "h100-sxm", stack=stack, **words).seconds for stack in stacks]
    assert both[0] == pytest.approx(both[1])


@pytest.mark.parametrize(
    ("name", "part"), [("h100-sxm", 112 / 132), ("a100-sxm-80gb", 88 / 108), ("mi300x", 284 / 304)]
)
def test_collectives_hold_cores_that_computing_beside_them_lacks(name: str, part: float) -> None:
    assert cores_left(load_device(name)) == pytest.approx(part)


@pytest.mark.parametrize("name", [None, "tpu-v5e", "m3-max", "l4"])
def test_no_cores_are_held_where_none_are_known_to_be(name: str | None) -> None:
    """Chips that send by themselves, and devices whose links are the board's slots."""
    assert cores_left(None if name is None else load_device(name)) == 1


@pytest.mark.parametrize(("tp", "zero"), [(1, 1), (2, 2)])
def test_what_hides_gradients_is_slowed_by_them(tp: int, zero: int) -> None:
    """Of 32 layers the last to be reduced, or the first to be gathered, stands open; of the others what 20 of an
    H100's 132 SMs would have computed."""
    words = {"tp": tp, "dp": 8 // tp, "zero": zero, "micro_batches": 4, **EVENLY}
    found = predict(load_model("llama-3-8b"), "h100-sxm", stack=changed(), **words)
    sums = [row for row in found.kernels if row.kernel.between == "data"]
    assert len(sums) == 2
    for row in sums:
        assert row.hidden == pytest.approx(row.seconds * 32 / 33 * 112 / 132)
        assert row.share * found.seconds == pytest.approx(row.seconds - row.hidden)


def test_experts_take_cores_once() -> None:
    """HAI-LLM sets 20 cores apart for good; others' exchange takes them while it lasts."""
    hai = load_stack("hai-llm")
    assert hai.overlap.cores == 20
    device = load_device("h800")
    hiding = {
        stack: hides(Run(stack=stack, ep=8, dp=8), "experts", device) for stack in ("hai-llm", "megatron-core-0.18")
    }
    assert hiding == {"hai-llm": 1, "megatron-core-0.18": cores_left(device)}


def test_megatron_lm_hides_nothing_of_tensor_and_data_parallelism() -> None:
    words = {"tp": 4, "dp": 4, "micro_batches": 4, **EVENLY}
    spec = load_model("llama-3-8b")
    plain, core = (predict(spec, "h100-sxm", stack=name, **words) for name in ("megatron-lm", "megatron-core"))
    assert plain.seconds > core.seconds


def test_more_power_makes_steps_with_experts_no_faster() -> None:
    """The factor of GB200 (1,200 W) on GB300 (1,400 W) and B200 (1,000 W); less power makes them slower, as others."""
    stack = load_stack("megatron-core")
    power = {name: load_device(name).power.value for name in ("gb200", "gb300", "b200")}  # type: ignore[union-attr]
    for name, watts in power.items():
        factor, ratio = stack.fitted.computing["gb200"], power["gb200"] / watts
        assert stack.computing(load_device(name), experts=True) == pytest.approx(factor * max(ratio, 1.0))
        assert stack.computing(load_device(name)) == pytest.approx(factor * ratio)
    for device in (load_device("h100-sxm"), load_device("tpu-v5e"), None):
        assert stack.computing(device, experts=True) == stack.computing(device)


def test_the_bias_of_experts_goes_through_memory_again() -> None:
    """gpt-oss: 4 visits a token of 2,880 numbers, 28 bytes each there and 40 back, of 36 layers."""
    spec = load_model("gpt-oss-120b")
    words = {**EVENLY, "seq": 4096, "dp": 64, "ep": 64, "recipe": "bf16-master"}
    asked = Question(spec, speed_of("h100-sxm"), "", ("forward", "backward"), LEVEL)
    moved: list[dict[str, float]] = []
    for apart in (True, False):
        run = timed_run(spec, None, **{**words, "stack": changed(bias_an_expert=apart)})
        found = {"forward": 0.0, "backward": 0.0}
        for kernel, _ in passes(asked, [run])[0].kernels:
            if kernel.path.endswith("down_proj") and kernel.function == "add":
                found[kernel.direction] += kernel.calls * kernel.bytes
        moved.append(found)
    elements = 36 * 4096 * 4 * 2880
    assert moved[0] == pytest.approx({"forward": 28 * elements, "backward": 40 * elements})
    assert moved[1] == {"forward": 0.0, "backward": 0.0}
