"""States on the host: closed forms, the bytes of PyTorch's own optimizer on a CPU, and a published sweep."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import calc
from calc.errors import Refused
from calc.memory.sharding import stages
from calc.memory.states import States, states
from calc.memory.totals import memory_ranks, plan_needs
from calc.memory.training import TrainingRank
from calc.quantities.parameters import parameters
from calc.spec import ModelSpec
from calc.spec.run import Run
from calc.time.economics import checkpoint_bytes
from tests.strategies import specs

MEGATRON: dict[str, Any] = {"stack": "megatron-core", "recipe": "bf16-master", "zero": 1}
SMALL = {"model_type": "gpt2", "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "vocab_size": 96}
PUBLISHED = {0.25: 47.2 - 43.4, 0.5: 47.2 - 39.6, 0.75: 47.2 - 35.6, 1.0: 15.3}
"""Part of the optimizer on the host -> GB saved: Megatron-Bridge, skills/nemo-mbridge-perf-cpu-offloading/card.yaml."""


def held(spec: ModelSpec, **words: Any) -> States:
    run = Run(**words)
    return states(spec, run, stages(spec, run))[0]


@pytest.mark.parametrize("ranks", [1, 8])
@pytest.mark.parametrize("part", [0.25, 0.3, 0.5, 1])
def test_what_leaves_the_gpu_stands_on_the_host(part: float, ranks: int) -> None:
    """12 bytes a parameter on the GPU, or 16 on the host, of which 8 are pinned."""
    spec = calc.load_model("llama-3-8b")
    own = -(-sum(parameters(spec).values()) // ranks)
    stays = -(-own * (1 - Fraction(str(part))) // 1)
    found = held(spec, dp=ranks, offload="optimizer", offload_fraction=part, **MEGATRON)
    without = held(spec, dp=ranks, **MEGATRON)
    assert found.optimizer == 12 * stays
    assert (found.host, found.pinned) == (16 * (own - stays), 8 * (own - stays))
    assert (without.host, without.optimizer) == (0, 12 * own)
    assert (found.weights, found.gradients) == (without.weights, without.gradients)


def test_without_a_wider_copy_the_host_has_one_of_the_weights() -> None:
    spec = calc.load_model("gpt2")
    n = sum(parameters(spec).values())
    found = held(spec, recipe="bf16-mixed", offload="optimizer")
    assert (found.weights, found.optimizer, found.host) == (4 * n, 0, 16 * n)


def test_as_many_bytes_as_pytorch_keeps_on_a_cpu() -> None:
    """A copy, its gradient and the state of torch.optim.AdamW, beside the counters of steps."""
    spec = calc.from_config(SMALL)
    n = sum(parameters(spec).values())
    copies = [torch.nn.Parameter(torch.zeros(n // 2)), torch.nn.Parameter(torch.zeros(n - n // 2))]
    steps = torch.optim.AdamW(copies, fused=True)
    for each in copies:
        each.grad = torch.ones_like(each)
    steps.step()
    kept = [value for state in steps.state.values() for name, value in state.items() if name != "step"]
    kept += [*copies, *(each.grad for each in copies if each.grad is not None)]
    assert held(spec, offload="optimizer").host == sum(each.numel() * each.element_size() for each in kept)


@pytest.mark.parametrize("part", PUBLISHED)
def test_moments_that_a_published_sweep_saved(part: float) -> None:
    """Qwen3-30B-A3B on 16 H100. The wider copy stayed there, since the sweep ran without the precision-aware optimizer:
    8 of the 16 bytes on the host are moments."""
    words = {"dp": 4, "tp": 2, "pp": 2, "ep": 4, "offload": "optimizer", "offload_fraction": part, **MEGATRON}
    ranks = memory_ranks(calc.load_model("qwen3-30b-a3b"), Run(**words))
    moments = max(rank.host for rank in ranks if isinstance(rank, TrainingRank)) / 2
    assert moments / 1e9 == pytest.approx(PUBLISHED[part], rel=0.02)


@settings(max_examples=25, deadline=None)
@given(specs(), st.data())
def test_columns_are_the_plans_one_by_one(spec: ModelSpec, data: st.DataObject) -> None:
    words: dict[str, Any] = {"recipe": "bf16-master", "seq": 8, "offload": "optimizer"}
    words["offload_fraction"] = data.draw(st.sampled_from([0.1, 0.3, 0.5, 1.0]))
    dp = data.draw(st.lists(st.integers(1, 7), min_size=1, max_size=4))
    zero = data.draw(st.lists(st.integers(0, 3), min_size=len(dp), max_size=len(dp)))
    found = plan_needs(spec, Run(dp=np.array(dp, float), zero=np.array(zero, float), pp=np.ones(len(dp)), **words))
    for place, (ranks, stage) in enumerate(zip(dp, zero, strict=True)):
        (alone,) = memory_ranks(spec, Run(dp=ranks, zero=stage, **words))
        assert isinstance(alone, TrainingRank)
        assert (found.peak[place], found.host[place], found.host_at_most[place]) == (
            alone.peak,
            alone.host,
            alone.host_at_most,
        )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"stack": "torchtitan"}, "stack: expected with --offload optimizer one of megatron-core"),
        ({"zero": 3, "dp": 2}, "zero: expected 1 under megatron-core"),
        ({"zero": 0, "dp": 2}, "zero: expected 1 under megatron-core"),
        ({"optimizer": "lion"}, "optimizer: expected adamw"),
        ({"recipe": "bf16", "optimizer": "adamw"}, "recipe: expected one that updates weights in fp32"),
        ({"offload_fraction": 0}, "offload_fraction: expected a part above 0"),
        ({"offload_fraction": 1.1}, "offload_fraction: expected a part above 0"),
        ({"offload": "all"}, "offload: expected one of none, optimizer"),
    ],
)
def test_what_is_not_described_is_refused(words: dict[str, Any], said: str) -> None:
    with pytest.raises(Refused, match=said):
        memory_ranks(calc.load_model("gpt2"), Run(**(MEGATRON | {"offload": "optimizer"} | words)))


def test_a_checkpoint_has_what_stands_on_the_host() -> None:
    spec, run = calc.load_model("gpt2"), Run(phase="training", **MEGATRON)
    assert checkpoint_bytes(spec, run.changed(offload="optimizer")) == checkpoint_bytes(spec, run)
