"""Plans in columns: every entry is what `predict` and `memory` say of that plan alone."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import calc
from calc.errors import Refused
from calc.memory.totals import memory_ranks
from calc.spec import DeltaNet, LayerGroup, Mlp, ModelSpec
from calc.spec.run import EXECUTIONS
from calc.time import predict, step_times
from calc.time.step.timed_run import timed_run
from tests.strategies import recurrent, specs

GPU = "h100-sxm"
NETWORK = 50e9
SIZES = {
    "batch": [1, 2, 3],
    "dp": [1, 2, 4, 16],
    "tp": [1, 1, 2, 3],
    "pp": [1, 1, 2, 3],
    "cp": [1, 1, 2],
    "ep": [1, 1, 2],
    "zero": [0, 1, 2, 3],
    "micro_batches": [1, 2, 5],
    "interleave": [1, 1, 2],
}
"""Sizes of plans, of which some divide small models."""


@st.composite
def plans(draw: st.DrawFn) -> dict[str, list[int]]:
    n = draw(st.integers(3, 8))
    chosen = {name: st.lists(st.sampled_from(sizes), min_size=n, max_size=n) for name, sizes in SIZES.items()}
    return {name: draw(some) for name, some in chosen.items()}


def _alone(spec: ModelSpec, words: dict[str, Any]) -> tuple[float, float, float]:
    """(seconds, MFU, bytes at the peak) of one plan; nan of one that cannot be."""
    try:
        found = predict(spec, GPU, **words)
    except Refused:
        return math.nan, math.nan, math.nan
    assert found.memory.peak is not None
    return found.seconds, found.mfu or math.nan, found.memory.peak


def _same(spec: ModelSpec, columns: dict[str, list[int]], words: dict[str, Any]) -> int:
    """Hold every entry to the plan alone; how many plans can be."""
    found = step_times(spec, GPU, **columns, **words)
    for row in range(len(found.seconds)):
        plan = {name: column[row] for name, column in columns.items()}
        seconds, mfu, peak = _alone(spec, plan | words)
        assert found.seconds[row] == pytest.approx(seconds, rel=1e-12, nan_ok=True), plan
        if not math.isnan(seconds):
            assert found.peak is not None
            assert found.fits is not None
            assert found.peak[row] == pytest.approx(peak, rel=1e-12), plan
            assert found.fits[row] == (peak <= calc.load_device(GPU).usable)
        if found.mfu is not None:
            assert found.mfu[row] == pytest.approx(mfu, rel=1e-12, nan_ok=True), plan
    return int(np.isfinite(found.seconds).sum())


@settings(max_examples=20, deadline=None)
@given(
    specs() | specs(recurrent),
    plans(),
    st.sampled_from([name for name in EXECUTIONS if name != "megatron"]),
    st.sampled_from(["none", "selective", "full"]),
    st.sampled_from(["bf16", "bf16-mixed", "bf16-fsdp"]),
)
def test_a_training_plan_is_an_array_of_one(
    spec: ModelSpec, columns: dict[str, list[int]], execution: str, checkpointing: str, recipe: str
) -> None:
    words: dict[str, Any] = {
        "phase": "training",
        "execution": execution,
        "checkpointing": checkpointing,
        "recipe": recipe,
    }
    words |= {"seq": 32, "network": NETWORK}
    try:
        predict(spec, GPU, **words)
        memory_ranks(spec, timed_run(spec, **words))
    except Refused as refused:
        # What no plan can change is refused of many as it is of one, unless none of them divides the model.
        try:
            assert not np.isfinite(step_times(spec, GPU, **columns, **words).seconds).any()
        except Refused as of_many:
            assert of_many.field == refused.field
    else:
        _same(spec, columns, words)


@settings(max_examples=20, deadline=None)
@given(specs(), st.data(), st.sampled_from(["sdpa", "graph"]))
def test_a_token_is_an_array_of_one(spec: ModelSpec, data: st.DataObject, execution: str) -> None:
    assume(spec.decodes)
    n = data.draw(st.integers(1, 5))
    sizes = {"batch": [1, 4, 9], "tp": [1, 1, 2, 3], "dp": [1, 2], "context": [1, 17, 500]}
    columns = {name: data.draw(st.lists(st.sampled_from(some), min_size=n, max_size=n)) for name, some in sizes.items()}
    _same(spec, columns, {"phase": "decode", "execution": execution, "network": NETWORK})


@pytest.mark.parametrize("cluster", ["dgx-h100", "gb200-nvl72"])
@pytest.mark.parametrize("stack", ["megatron-core", "llm-foundry", "hai-llm"])
def test_plans_on_a_cluster_under_a_stack(cluster: str, stack: str) -> None:
    """Groups within domains and beyond, shards and replicas, pieces that do not divide the layers."""
    random = np.random.default_rng(11)
    choices = {"tp": [1, 2, 4], "pp": [1, 2, 4, 5], "dp": [4, 16, 64], "cp": [1, 2], "ep": [1, 2], "shard": [2, 4]}
    choices |= {"zero": [0, 1, 2, 3], "interleave": [1, 2, 3, 5], "micro_batches": [1, 3, 8]}
    columns = {name: random.choice(sizes, 60).tolist() for name, sizes in choices.items()}
    words = {"phase": "training", "seq": 512, "cluster": cluster, "stack": stack, "checkpointing": "none"}
    assert _same(calc.load_model("qwen3-30b-a3b"), columns, words) > 10


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "zero-bubble", "dualpipe"])
def test_plans_of_every_schedule(schedule: str) -> None:
    columns = {"pp": [1, 2, 4, 8], "micro_batches": [8, 8, 16, 64]}
    words = {"phase": "training", "seq": 512, "schedule": schedule, "network": NETWORK}
    assert _same(calc.load_model("llama-3-8b"), columns, words) == 4


@pytest.mark.parametrize("model", ["llama-3-70b", "gemma-2-9b", "qwen3-30b-a3b", "gpt-oss-20b"])
def test_plans_of_a_large_model(model: str) -> None:
    """Layers of several kinds, experts spread over ranks, pipelines of every length in one call."""
    random = np.random.default_rng(7)
    choices = SIZES | {"tp": [1, 2, 4, 8], "pp": [1, 2, 3, 5, 8], "ep": [1, 2, 4], "seq": [512, 1000]}
    columns = {name: random.choice(sizes, 40).tolist() for name, sizes in choices.items()}
    spec = calc.load_model(model)
    assert _same(spec, columns, {"phase": "training", "network": NETWORK, "recipe": "bf16-master"}) > 3


def test_a_plan_that_cannot_be_is_no_number_and_the_others_are() -> None:
    spec = calc.load_model("llama-3-8b")
    found = step_times(spec, GPU, phase="training", seq=512, tp=[1, 3, 1, 1], pp=[1, 1, 64, 1], dp=[1, 1, 1, 16])
    # 3 does not divide heads, there are not 64 layers, and of the network beyond a node nothing is said.
    assert np.isfinite(found.seconds).tolist() == [True, False, False, False]
    assert found.peak is not None
    assert np.isfinite(found.peak).tolist() == [True, False, False, True]
    assert found.gpus.tolist() == [1, 3, 64, 16]


def test_one_rank_has_the_gates_of_a_single_key_head() -> None:
    """More ranks than key heads are refused of a fused gated delta net, and one rank is not more."""
    mixer = DeltaNet(n_key_heads=1, n_value_heads=1, d_key=8, d_value=8, d_conv=2, fused=True)
    spec = ModelSpec(vocab_size=8, d_model=16, layers=(LayerGroup(name="a", count=1, mixer=mixer, channel=Mlp()),))
    assert _same(spec, {"tp": [1, 1, 2]}, {"phase": "training", "seq": 32}) == 2


def test_a_prediction_can_be_sent_to_another_process() -> None:
    found = predict(calc.load_model("gpt2"), GPU, phase="training", seq=64)
    copy = pickle.loads(pickle.dumps(found))
    assert copy == found
    assert copy.kernels == found.kernels
    assert copy.interval == found.interval


def test_more_micro_batches_fill_a_pipeline() -> None:
    spec = calc.load_model("llama-3-8b")
    micro_batches = [1, 2, 4, 8, 16, 64]
    found = step_times(spec, GPU, phase="training", seq=512, pp=4, micro_batches=micro_batches, memory=False)
    assert found.peak is None
    assert (np.diff(found.seconds / found.tokens) < 0).all()
    assert found.mfu is not None
    assert (np.diff(found.mfu) > 0).all()


@pytest.mark.parametrize(
    ("words", "field"),
    [
        ({"dp": 2}, "sizes"),
        ({"dp": [1, 2], "tp": [1, 2, 4]}, "sizes"),
        ({"dp": [1, 2], "checkpointing": "some"}, "checkpointing"),
        ({"dp": [1, 2], "pp": 2, "stages": (20, 12)}, "stages"),
        ({"dp": [1, 0]}, "dp"),
        ({"dp": [1, 2], "recipe": "fp8"}, "dtype"),
    ],
)
def test_what_no_plan_can_change_is_refused(words: dict[str, Any], field: str) -> None:
    with pytest.raises(Refused) as refused:
        step_times(calc.load_model("llama-3-8b"), "a100-sxm-80gb", phase="training", seq=128, **words)
    assert refused.value.field == field
