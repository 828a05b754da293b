"""What is counted of layers of several kinds, and of the weights' casts, on one rank."""

from __future__ import annotations

import pytest

import calc
from calc.memory.activations import activations, settings
from calc.memory.on_rank import saved_on_rank
from calc.memory.sharding import held_elements, stages
from calc.memory.totals import memory_ranks, worst
from calc.quantities.parameters import weights
from calc.quantities.saved_tensors import saved_tensors
from calc.spec import Attention, LayerGroup, Lora, Mlp, ModelSpec
from calc.spec.run import Checkpointing, Run
from calc.trace.op import Weight
from calc.trace.part import Leaf

SEQ = 64


@pytest.mark.parametrize("tp", [1, 2, 4, 16])
@pytest.mark.parametrize("name", ["llama-3-8b", "mixtral-8x7b", "gpt2-xl"])
def test_casts_are_divided_as_the_weights_are(name: str, tp: int) -> None:
    """Routers whole, keys shared by more ranks than heads, fused projections by their parts."""
    spec = calc.load_model(name)
    if name == "gpt2-xl" and tp > 1:
        tp = 5  # of 25 heads
    plan = Run(tp=tp, ep=1)
    made = saved_tensors(spec, Run(seq=SEQ).load(), settings(spec, plan, "none"))
    (each,) = made.layers.values()
    casts = sum(saved_on_rank(saved, plan) for saved in each.whole if saved.role == "cast weight")

    def matrix(weight: Weight, leaf: Leaf) -> bool:
        return len(weight.shape) == 2 and any(part.layer for part in leaf.parents)

    rows = [(weight, leaf) for _, weight, leaf in weights(spec) if matrix(weight, leaf)]
    one = sum(held_elements(weight, plan) * (leaf.copies // spec.n_layers) for weight, leaf in rows)
    assert casts == 2 * one


def two_kinds(small: int = 64, large: int = 512) -> ModelSpec:
    """Two layers with a narrow feed-forward block, then two with a wide one."""
    kinds = {
        "narrow": LayerGroup(name="narrow", count=2, mixer=Attention(n_heads=4, n_kv_heads=2), channel=Mlp(d_ff=small)),
        "wide": LayerGroup(name="wide", count=2, mixer=Attention(n_heads=4, n_kv_heads=4), channel=Mlp(d_ff=large)),
    }
    schedule = ("narrow", "narrow", "wide", "wide")
    return ModelSpec(d_model=32, vocab_size=97, layers=tuple(kinds.values()), schedule=schedule)


def test_a_stage_takes_for_a_moment_what_its_own_layers_take() -> None:
    plan, load = Run(pp=2), Run(seq=SEQ).load()
    first, last = activations(two_kinds(), load, plan, "full", stages(two_kinds(), plan))
    assert first.widest < last.widest
    assert first.again < last.again
    alike = two_kinds(512, 512)
    same, _ = activations(alike, load, plan, "full", stages(alike, plan))
    assert same.widest == last.widest


def test_keys_are_divided_by_the_heads_of_their_own_layer() -> None:
    """With four ranks, a layer of four heads of keys divides its keys by four beside one that divides them by two."""
    spec, load = two_kinds(), Run(seq=SEQ).load()
    made = saved_tensors(spec, load, settings(spec, Run(tp=4), "none"))
    shares = {}
    for each in made.layers.values():
        keys = next(saved for saved in each.whole if saved.tensor.split == "kv")
        shares[each.group.name] = keys.tensor.bytes / saved_on_rank(keys, Run(tp=4))
    assert shares == {"narrow": 2, "wide": 4}


@pytest.mark.parametrize("plan", [Run(pp=2), Run(pp=4, micro_batches=2), Run(pp=2, mode="inference")])
def test_total_is_that_of_the_rank_with_the_highest_peak(plan: Run) -> None:
    spec, query = calc.load_model("gpt2"), plan.changed(seq=SEQ)
    found = worst(memory_ranks(spec, query))
    assert calc.estimate(spec, "memory.total", seq=SEQ, run=plan).value == found.total
    assert calc.explain(spec, "memory.total", seq=SEQ, run=plan).estimate.value == found.total


def adapted(names: tuple[str, str], schedule: tuple[str, ...]) -> ModelSpec:
    """Layers of two kinds, described in the order of `names`; before the first low-rank update nothing is kept."""
    windows = {"wide": None, "narrow": 8}
    groups = tuple(
        LayerGroup(
            name=name,
            count=schedule.count(name),
            mixer=Attention(n_heads=4, window=windows[name]),
            channel=Mlp(d_ff=48 if name == "wide" else 80, gated=True, activation="silu"),
        )
        for name in names
    )
    whole = ModelSpec(d_model=32, vocab_size=50, layers=groups, schedule=schedule)
    return whole.model_copy(update={"adapter": Lora(rank=2, targets=("down_proj",))})


def test_the_first_layer_under_lora_is_that_of_the_schedule() -> None:
    """It keeps less, since nothing needs the gradient of its input; in which order kinds are described is no matter."""
    schedule = ("wide", "narrow", "narrow", "wide")

    def total(names: tuple[str, str]) -> int:
        (stage,) = stages(spec := adapted(names, schedule), Run())
        (found,) = activations(spec, Run(seq=SEQ).load(), Run(), "none", [stage])
        return found.total

    assert total(("wide", "narrow")) == total(("narrow", "wide"))


@pytest.mark.parametrize("checkpointing", ["none", "selective", "full"])
def test_stages_under_lora_keep_what_the_whole_model_does(checkpointing: Checkpointing) -> None:
    spec = adapted(("wide", "narrow"), ("wide", "narrow", "narrow", "wide"))

    def layers(plan: Run) -> int:
        found = activations(spec, Run(seq=SEQ).load(), plan, checkpointing, stages(spec, plan))
        return sum(each.layers for each in found)

    plain = Run(recipe="bf16-zero")
    whole = layers(plain)
    assert layers(Run(pp=2, micro_batches=1, stack="deepspeed")) == whole
    if checkpointing == "none":
        made = saved_tensors(spec, Run(seq=SEQ).load(), settings(spec, plain, "none"))
        assert whole == sum(each.count * saved.tensor.bytes for each in made.layers.values() for saved in each.saved)
