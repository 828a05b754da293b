"""Activations on the host: what transformers' layers keep, tensor by tensor, closed forms, and columns."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from torch.utils.checkpoint import checkpoint  # noqa: E402

import calc  # noqa: E402
from calc.architectures import from_config  # noqa: E402
from calc.errors import Refused  # noqa: E402
from calc.memory.totals import memory_ranks, plan_needs  # noqa: E402
from calc.memory.training import TrainingRank  # noqa: E402
from calc.spec.run import Run  # noqa: E402
from reference_models.saved import saved_tensors  # noqa: E402
from tests.saved.test_transformers import BATCH, FAMILIES, MODES, SEQ, theirs  # noqa: E402

RECIPES = {"eager fp32": "fp32", "eager bf16": "bf16", "sdpa bf16": "bf16", "sdpa autocast": "bf16-mixed"}
LAYERS = {"llama": "model.layers", "gpt2": "transformer.h", "qwen3": "model.layers"}


def ours(name: str, mode: str, **words: Any) -> TrainingRank:
    spec = from_config({"model_type": name, **FAMILIES[name]})
    run = Run(execution=MODES[mode].execution, device="cpu", recipe=RECIPES[mode], batch=BATCH, seq=SEQ, **words)
    (rank,) = memory_ranks(spec, run)
    assert isinstance(rank, TrainingRank)
    return rank


def kept(name: str, mode: str, again: bool = False) -> list[int]:
    """Bytes that `saved_tensors_hooks`, by which torch.autograd.graph.save_on_cpu works, sees of every layer; again:
    where torch's checkpoint runs each a second time."""
    model = theirs(name, MODES[mode])
    layers = model.get_submodule(LAYERS[name])
    for layer in layers if again else ():
        plain = layer.forward
        layer.forward = lambda x, *args, plain=plain, **more: checkpoint(
            lambda x: plain(x, *args, **more), x, use_reentrant=True
        )
    tokens = torch.randint(3, 90, (BATCH, SEQ))

    def forward() -> Any:
        with torch.autocast("cpu", torch.bfloat16, enabled=MODES[mode].autocast):
            return model(tokens, labels=tokens, use_cache=False)

    found = saved_tensors(model, forward)
    first, *others = (found.within(f"{LAYERS[name]}.{place}") for place in range(len(layers)))
    # Cosines and sines serve all layers, of which the first is found to keep them, and stay.
    shared = 2 * SEQ * model.config.head_dim * torch.finfo(model.dtype).bits // 8 if name != "gpt2" else 0
    return [first - (0 if again else shared), *others]


@pytest.mark.parametrize("mode", ["eager fp32", "eager bf16", "sdpa bf16"])
@pytest.mark.parametrize("name", LAYERS)
def test_what_layers_keep_in_pytorch_is_what_waits_on_the_host(name: str, mode: str) -> None:
    """Of all layers but the last, to the byte; of the last and of one more the GPU keeps as much beside."""
    *others, _ = kept(name, mode)
    found, without = ours(name, mode, offload="activations"), ours(name, mode)
    assert found.activations.moved == found.host == sum(others) > 0
    assert found.host_at_most == 2 * sum(others)
    stays = without.activations.layers - sum(others) + max(others)
    assert found.activations == replace(without.activations, layers=stays, moved=sum(others))
    assert without.host == 0


@pytest.mark.parametrize("name", LAYERS)
def test_of_fewer_layers_the_first_wait(name: str) -> None:
    """The GPU keeps the others', and of one layer more what is on its way."""
    each = kept(name, "sdpa bf16")
    without = ours(name, "sdpa bf16")
    for layers in range(1, len(each)):
        found = ours(name, "sdpa bf16", offload="activations", offload_layers=layers)
        assert found.activations.moved == found.host == sum(each[:layers])
        assert found.activations.layers == without.activations.layers - found.host + max(each[:layers])


def test_the_first_layers_of_several_kinds_are_those_of_the_schedule() -> None:
    """DeepSeek-V3's first three have no experts, and keep less than those behind them."""
    words: dict[str, Any] = {"recipe": "bf16-master", "seq": 256, "offload": "activations", "checkpointing": "none"}
    spec = calc.load_model("deepseek-v3")

    def host(layers: int | None) -> Any:
        (rank,) = memory_ranks(spec, Run(**words, offload_layers=layers))
        assert isinstance(rank, TrainingRank)
        return rank.host

    dense, expert = host(1), host(4) - host(3)
    assert 0 < dense < expert
    assert (host(3), host(6)) == (3 * dense, 3 * dense + 3 * expert)
    assert host(spec.n_layers - 1) == host(None)


@pytest.mark.parametrize("layers", [1, 2, 3, 5, None])
def test_what_is_on_its_way_is_of_layers_that_cross(layers: int | None) -> None:
    """DeepSeek-V3's first three keep less than those with experts: where they alone leave, less is on its way."""
    words: dict[str, Any] = {"recipe": "bf16-master", "seq": 256, "checkpointing": "none", "execution": "sdpa"}
    spec = calc.load_model("deepseek-v3")

    def activations(**more: Any) -> Any:
        (rank,) = memory_ranks(spec, Run(**words, **more))
        assert isinstance(rank, TrainingRank)
        return rank.activations

    without, found = activations(), activations(offload="activations", offload_layers=layers)
    moved = [activations(offload="activations", offload_layers=each).moved for each in (1, 3, 4)]
    largest = moved[0] if layers in (1, 2, 3) else moved[2] - moved[1]
    assert found.layers == without.layers - found.moved + largest


@pytest.mark.parametrize("model", ["llama-3-8b", "deepseek-v3", "qwen3-next-80b-a3b"])
def test_under_megatron_core_no_more_layers_are_there_at_once_than_stay(model: str) -> None:
    """Layers wait for those that leave: of so many one after the other, those that keep the most."""
    words: dict[str, Any] = {"recipe": "bf16-master", "seq": 512, "stack": "megatron-core"}
    spec = calc.load_model(model)

    def activations(**more: Any) -> Any:
        (rank,) = memory_ranks(spec, Run(**words, **more))
        assert isinstance(rank, TrainingRank)
        return rank.activations

    without, last = activations(), spec.n_layers - 1
    on_host = [0, *(activations(offload="activations", offload_layers=n).moved for n in range(1, last + 1))]
    sizes = [b - a for a, b in pairwise(on_host)]
    sizes.append(sizes[-1] if model != "qwen3-next-80b-a3b" else sizes[3])  # the last layer is of the fourth's kind
    for leaving in (1, 3, last // 2, last - 1, last):
        stay = spec.n_layers - leaving
        most = max(sum(sizes[first : first + stay]) for first in range(leaving + 1))
        rest = without.layers - sum(sizes)  # what layers keep that is no activation
        assert activations(offload="activations", offload_layers=leaving).layers == most + rest
    assert activations(offload="activations").layers == max(sizes) + rest


def test_casts_of_weights_stay() -> None:
    """Under autocast layers keep each matrix in bf16 too, which is no activation."""
    spec = from_config({"model_type": "llama", **FAMILIES["llama"]})
    *others, _ = kept("llama", "sdpa autocast")
    per_layer = sum(
        parameter.numel()
        for parameter in theirs("llama", MODES["sdpa autocast"]).model.layers[0].parameters()
        if parameter.dim() == 2
    )
    assert ours("llama", "sdpa autocast", offload="activations").host == sum(others) - 2 * per_layer * (
        spec.n_layers - 1
    )


@pytest.mark.parametrize("mode", ["eager fp32", "sdpa bf16"])
def test_of_checkpointed_layers_their_inputs_wait(mode: str) -> None:
    *others, _ = kept("llama", mode, again=True)
    found = ours("llama", mode, offload="activations", checkpointing="full")
    assert (
        found.host
        == sum(others)
        == len(others) * BATCH * SEQ * FAMILIES["llama"]["hidden_size"] * (4 if mode == "eager fp32" else 2)
    )


def test_columns_are_the_plans_one_by_one() -> None:
    spec = calc.load_model("qwen3-30b-a3b")
    words: dict[str, Any] = {"recipe": "bf16-master", "seq": 256, "offload": "activations", "checkpointing": "none"}
    plans = [(1, 1, 1, 1), (2, 4, 1, 2), (4, 2, 2, 4), (2, 1, 1, 1)]
    tp, dp, cp, ep = (np.array(column, float) for column in zip(*plans, strict=True))
    pp = np.array([1.0, 1, 1, 2])
    found = plan_needs(spec, Run(tp=tp, dp=dp, cp=cp, ep=ep, pp=pp, **words))
    for place, sizes in enumerate(plans[:3]):
        (alone,) = memory_ranks(spec, Run(**dict(zip(("tp", "dp", "cp", "ep"), sizes, strict=True)), **words))
        assert isinstance(alone, TrainingRank)
        assert (found.peak[place], found.host[place], found.host_at_most[place]) == (
            alone.peak,
            alone.host,
            alone.host_at_most,
        )
    assert np.isnan(found.peak[3])


@pytest.mark.parametrize(("model", "words", "said"), [
    ("gpt2", {"pp": 2}, "offload: expected none or optimizer in a pipeline, found activations"),
    ("gpt2", {"execution": "graph"}, "execution: expected eager, sdpa or compiled"),
    ("gpt2", {"execution": "megatron"}, "execution: expected eager, sdpa or compiled"),
    ("gpt2", {"checkpointing": "full", "checkpoint_every": 2}, "checkpoint_every: expected 1"),
    ("gpt2", {"offload_fraction": 0.5}, "offload_fraction: expected 1"),
    ("gpt2", {"offload_layers": 12}, "offload_layers: expected 1 to 11, all layers but the last, found 12"),
    ("gpt2", {"offload_layers": 3, "stack": "deepspeed", "recipe": "bf16-zero", "checkpointing": "full"},
     "offload_layers: expected none under deepspeed"),
    ("gpt2", {"stack": "torchtitan"}, "stack: expected with --offload activations one of deepspeed, megatron-core"),
    ("gpt2", {"stack": "megatron-core", "checkpointing": "full"}, "checkpointing: expected none under megatron-core"),
    ("gpt2", {"stack": "megatron-core", "recompute": ("mlp",)}, "recompute: expected none under megatron-core"),
    ("gpt2", {"stack": "megatron-core", "graphs": "attention"}, "graphs: expected none with --offload activations"),
    ("gpt2", {"graphs": "step"}, "graphs: expected none with --offload activations"),
    ("t5-xxl", {}, "model: expected one stack of layers"),
])  # fmt: skip
def test_what_is_not_described_is_refused(model: str, words: dict[str, Any], said: str) -> None:
    with pytest.raises(Refused, match=said):
        memory_ranks(calc.load_model(model), Run(**{"offload": "activations", "recipe": "bf16-master"} | words))


@pytest.mark.parametrize("layers", [8, 16, 24])
def test_on_the_way_back_the_last_one_is_there_when_the_others_are_gone(layers: int) -> None:
    """The device holds as much until as many layers have gone back as waited on the host, whose gradients are there."""
    run = Run(mode="training", recipe="bf16", execution="compiled", seq=8192, batch=4, offload="activations")
    (rank,) = memory_ranks(calc.load_model("llama-3-8b"), run.changed(offload_layers=layers))
    assert isinstance(rank, TrainingRank)
    own, live = rank.states, rank.activations
    of_layer, of_end = 2 * 218_112_000, 2 * (128_256 * 4096 + 4096)
    there = own.weights + own.optimizer + of_end + layers * of_layer + live.total
    assert rank.timeline["backward, the last one is back"] >= there
    assert rank.peak >= there


@pytest.mark.parametrize("batch", [1, 4, 8])
def test_the_peak_is_no_less_than_any_layer_on_the_way_back(batch: int) -> None:
    """Two layers' activations are on the device until the second layer, while gradients grow layer by layer."""
    run = Run(mode="training", recipe="bf16", execution="compiled", seq=8192, batch=batch, offload="activations")
    spec = calc.load_model("llama-3-8b")
    (rank,) = memory_ranks(spec, run)
    assert isinstance(rank, TrainingRank)
    own, live = rank.states, rank.activations
    of_layer, of_end = 2 * 218_112_000, 2 * (128_256 * 4096 + 4096)
    for layer in range(spec.n_layers, 1, -1):
        there = own.weights + own.optimizer + of_end + (spec.n_layers - layer) * of_layer + live.total
        assert rank.peak >= there
    assert rank.peak > max(sum(rank.moments[name].values()) for name in ("backward, last layer", "optimizer step"))
