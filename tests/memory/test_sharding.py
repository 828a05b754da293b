"""Which part of every weight a rank holds: against transformers' own plans of tensor parallelism, and closed forms."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st

from calc.architectures import from_config
from calc.architectures.models import load_model
from calc.errors import Refused
from calc.memory.conditions import conditions
from calc.memory.sharding import held_elements, stages
from calc.memory.states import States, states
from calc.memory.totals import memory_ranks
from calc.quantities.parameters import parameters, weights
from calc.spec import Adapter, Lora, ModelSpec
from calc.spec.run import Run
from tests.conventions.shapes import LLAMA_3, gpt
from tests.strategies import attentions, specs

SIZES = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 8, "vocab_size": 96}
GROUPED = {**SIZES, "num_key_value_heads": 4}
EXPERTS = {**GROUPED, "num_experts_per_tok": 2}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaForCausalLM", GROUPED),
    "qwen2, biases": ("Qwen2ForCausalLM", GROUPED),
    "starcoder2, biases, plain": ("Starcoder2ForCausalLM", {**GROUPED, "use_bias": True}),
    "gpt-neox, fused": ("GPTNeoXForCausalLM", SIZES),
    "gemma2, tied": ("Gemma2ForCausalLM", {**GROUPED, "head_dim": 8}),
    "mixtral": ("MixtralForCausalLM", {**EXPERTS, "num_local_experts": 4}),
    "qwen3-moe": ("Qwen3MoeForCausalLM", {**EXPERTS, "num_experts": 4, "moe_intermediate_size": 32, "head_dim": 8}),
}


def rank(spec: ModelSpec, plan: Run) -> States:
    """The only stage of a model without a pipeline."""
    return states(spec, plan, stages(spec, plan))[0]


def by_stage(spec: ModelSpec, plan: Run) -> list[States]:
    return states(spec, plan, stages(spec, plan))


def chunk(model: Any, name: str, parameter: Any, tp: int) -> int:
    """Elements of rank 0 by transformers' plan for the model; the token table by rows, as Megatron-LM splits it."""
    plan = dict(model._tp_plan) | {f"model.{k}": v for k, v in (model.config.base_model_tp_plan or {}).items()}
    module = re.sub(
        r"\.\d+\.", ".*.", name.removesuffix(".weight").removesuffix(".bias").replace("gpt_neox.", "model.")
    )
    how = "colwise" if module.endswith(("embed_tokens", "embed_in", "embed_out", "lm_head")) else plan.get(module, "")
    if "colwise" in how:
        return parameter.chunk(tp, 0 if parameter.dim() < 3 else 1)[0].numel()
    if "rowwise" in how and parameter.dim() > 1:
        return parameter.chunk(tp, -1)[0].numel()
    return parameter.numel()


@pytest.mark.parametrize("tp", [2, 4])
@pytest.mark.parametrize("family", FAMILIES)
def test_tensor_parallel_as_transformers_splits(family: str, tp: int) -> None:
    name, fields = FAMILIES[family]
    cls = getattr(transformers, name)
    config = cls.config_class(**fields)
    with torch.device("meta"):
        model = cls(config)
    spec = from_config(config.to_dict() | {"architectures": [name]})
    theirs = sum(chunk(model, path, parameter, tp) for path, parameter in model.named_parameters())
    assert rank(spec, Run(tp=tp)).elements == theirs


def test_more_ranks_than_heads_of_keys_share_them() -> None:
    """A Llama 3 8B on 16 ranks: 8 heads of keys, a head a rank, twice."""
    spec, plan = LLAMA_3["8B"], Run(tp=16)
    held = {leaf.op.name: held_elements(weight, plan) for _, weight, leaf in weights(spec)}
    assert held["k_proj"] == held["v_proj"] == 128 * 4096
    assert held["q_proj"] == held["o_proj"] == 4096 * 4096 // 16
    assert held["token"] == held["logits"] == 128256 * 4096 // 16


def test_a_fused_projection_is_its_three_parts() -> None:
    apart, fused = gpt(256, 2, 8, n_kv_heads=2), gpt(256, 2, 8, n_kv_heads=2)
    group = fused.layers[0]
    mixer = group.mixer.model_copy(update={"fused": True})  # type: ignore[union-attr]
    fused = fused.model_copy(update={"layers": (group.model_copy(update={"mixer": mixer}),)})
    for tp in (1, 2, 4, 8):
        assert rank(fused, Run(tp=tp)).elements == rank(apart, Run(tp=tp)).elements


def test_an_odd_vocabulary_rounds_up_by_rows() -> None:
    spec, plan = load_model("gpt2"), Run(tp=4)
    held = {path: held_elements(weight, plan) for path, weight, leaf in weights(spec)}
    assert held["embedding.token.weight"] == 12565 * 768
    assert held["embedding.position.weight"] == 1024 * 768
    assert held["layers.{}.mlp.down_proj.bias"] == 768
    assert held["layers.{}.mlp.up_proj.bias"] == 768


def test_latent_attention_divides_what_makes_heads() -> None:
    """DeepSeek-V3's shapes: the compressing matrices whole, those that expand to 128 heads divided."""
    config = transformers.DeepseekV3Config(num_hidden_layers=4, first_k_dense_replace=3, n_routed_experts=8, n_group=1)
    spec = from_config(config.to_dict() | {"architectures": ["DeepseekV3ForCausalLM"], "topk_group": 1})
    whole = {path: held_elements(weight, Run()) for path, weight, leaf in weights(spec)}
    divided = {path: held_elements(weight, Run(tp=8)) for path, weight, leaf in weights(spec)}
    kinds = {path.split(".")[-2]: whole[path] // divided[path] for path in whole if ".attention." in path}
    assert {kinds[name] for name in ("q_b_proj", "kv_b_proj", "o_proj")} == {8}
    assert {kinds[name] for name in kinds if name not in ("q_b_proj", "kv_b_proj", "o_proj")} == {1}


@pytest.mark.parametrize(("ep", "dp"), [(1, 8), (4, 8), (8, 8)])
def test_experts_are_spread_and_divided_among_their_own_copies(ep: int, dp: int) -> None:
    """Mixtral 8x7B: 1.3 % outside experts; ep ranks hold 8 / ep experts, which dp / ep ranks divide between them."""
    spec = load_model("mixtral-8x7b")
    counted = parameters(spec)
    experts = counted["routed_expert"]
    rest = sum(counted.values()) - experts
    assert rank(spec, Run(dp=dp, ep=ep)).elements == rest + experts // ep
    plan = Run(dp=dp, ep=ep, zero=3, recipe="bf16")
    assert rank(spec, plan).weights == 2 * (rest // dp + experts // ep // (dp // ep))
    plan = Run(dp=dp, ep=ep, zero=1, recipe="bf16")
    assert rank(spec, plan).weights == 2 * (rest + experts // ep)


@pytest.mark.parametrize(
    ("zero", "each"), [(0, 16), (1, 4 + 12 / 64), (2, 2 + 14 / 64), (3, 16 / 64)], ids=["DDP", "os", "os+g", "os+g+p"]
)
def test_zero_paper_figure_1(zero: int, each: float) -> None:
    """Rajbhandari et al. 2019, figure 1: 120, 31.4, 16.6 and 1.88 GB for 7.5B parameters on 64 GPUs."""
    spec = gpt(4096, 36, 32)
    held = rank(spec, Run(recipe="bf16-zero", dp=64, zero=zero))
    total = held.weights + held.gradients + held.optimizer
    assert total == pytest.approx(each * held.elements, rel=1e-7)
    assert 7.5 * total / held.elements == pytest.approx({0: 120, 1: 31.4, 2: 16.6, 3: 1.88}[zero], rel=0.003)


@pytest.mark.parametrize("dp", [1, 2, 16])
def test_distributed_optimizer(dp: int) -> None:
    """Megatron-LM: 18 bytes a parameter, with its distributed optimizer 6 + 12 / dp."""
    held = rank(gpt(1024, 4, 16), Run(recipe="bf16-master", dp=dp, zero=1))
    assert held.weights + held.gradients + held.optimizer == held.elements * 6 + 12 * held.elements // dp


def test_stages_hold_the_model_and_a_tied_table_twice() -> None:
    for name in ("llama-3-8b", "gemma-2-2b", "gpt2"):
        spec = load_model(name)
        whole = sum(parameters(spec).values())
        table = spec.vocab_size * spec.d_model if spec.head is not None and spec.head.tied else 0
        for pp in (2, 3, 4):
            assert sum(each.elements for each in by_stage(spec, Run(pp=pp))) == whole + table


def test_uneven_stages() -> None:
    spec, plan = gpt(256, 12, 4), Run(pp=3, stages=(2, 6, 4), micro_batches=2)
    layer = parameters(spec.model_copy(update={"layers": ()}))
    found = stages(spec, plan)
    assert [sum(stage.layers.values()) for stage in found] == [2, 6, 4]
    assert [stage.held for stage in found] == [2, 2, 1]
    one = by_stage(spec, Run(pp=12))[5].elements
    ends = sum(layer.values())
    held = [each.elements for each in states(spec, plan, found)]
    assert held[1] == 6 * one
    assert held[0] + held[2] == 6 * one + ends + spec.vocab_size * spec.d_model


@pytest.mark.parametrize(
    ("layers", "pp", "expected"),
    [
        (61, 4, [16, 16, 16, 13]),  # as Megatron-Bridge lays out DeepSeek-V3
        (61, 16, [*[4] * 15, 1]),
        (12, 4, [3, 3, 3, 3]),
        (12, 5, [3, 3, 2, 2, 2]),  # threes would leave nothing for the last
    ],
)
def test_the_last_stage_takes_what_the_others_leave(layers: int, pp: int, expected: list[int]) -> None:
    found = stages(gpt(256, layers, 4), Run(pp=pp))
    assert [sum(stage.layers.values()) for stage in found] == expected


def test_layers_of_several_kinds_stay_in_order() -> None:
    """Gemma 2: every second layer has a window; of 26 layers on 4 stages, 7 + 7 + 7 + 5."""
    found = stages(load_model("gemma-2-2b"), Run(pp=4))
    assert [tuple(stage.layers.values()) for stage in found] == [(4, 3), (3, 4), (4, 3), (2, 3)]


@pytest.mark.parametrize("interleave", [1, 2, 4])
def test_micro_batches_in_flight(interleave: int) -> None:
    """1F1B: pp - i; interleaved (p - 1) / (p m) more than a pipeline holds in all (Korthikanti et al. 2022, 4.2.3)."""
    spec, pp = gpt(256, 16, 4), 4
    found = stages(spec, Run(pp=pp, interleave=interleave))
    if interleave == 1:
        assert [stage.held for stage in found] == [4, 3, 2, 1]
    else:
        assert found[0].held == pp * interleave + pp - 1
    few = stages(spec, Run(pp=pp, interleave=interleave, micro_batches=1))
    assert {stage.held for stage in few} <= {1, interleave}


@st.composite
def spread(draw: st.DrawFn) -> tuple[ModelSpec, Run]:
    """A model, and a plan that it can be spread by."""
    spec = draw(specs(attentions))
    plan = Run(dp=draw(st.integers(1, 8)), tp=draw(st.sampled_from([1, 2, 3, 4])), zero=draw(st.integers(0, 3)))
    try:
        possible = all(each.test(each.a, each.b) for each in conditions(spec, plan))
    except Refused:
        possible = False
    return spec, plan if possible else plan.changed(tp=1)


@given(case=spread())
def test_ranks_hold_the_whole_and_no_less_than_a_share(case: tuple[ModelSpec, Run]) -> None:
    spec, plan = case
    alone = plan.changed(tp=1)
    for _, weight, _leaf in weights(spec):
        part, whole = held_elements(weight, plan), held_elements(weight, alone)
        assert plan.tp * part >= whole
        assert part <= whole
    held = rank(spec, plan)
    assert plan.dp * held.weights >= rank(spec, plan.changed(zero=0)).weights
    assert held.elements >= held.trained


@given(case=spread(), more=st.integers(2, 4))
def test_more_ranks_and_more_division_never_hold_more(case: tuple[ModelSpec, Run], more: int) -> None:
    spec, plan = case

    def kept(plan: Run) -> tuple[Any, ...]:
        held = rank(spec, plan)
        return held.weights, held.gradients, held.optimizer

    here = kept(plan)
    changes = [plan.changed(dp=plan.dp * more), plan.changed(zero=min(plan.zero + 1, 3))]
    for other in changes:
        assert all(after <= before for after, before in zip(kept(other), here, strict=True))
    if plan.dp == 1:
        assert here == kept(plan.changed(zero=0))


@given(spec=specs(attentions))
def test_where_it_divides_shares_add_up(spec: ModelSpec) -> None:
    counted = parameters(spec)
    experts = rank(spec, Run()).expert_elements
    dp = math.gcd(experts, sum(counted.values()) - experts)
    held = rank(spec, Run(dp=dp, zero=3, recipe="bf16", optimizer="adamw-bf16"))
    assert dp * held.weights == dp * held.gradients == 2 * sum(counted.values())
    assert dp * held.optimizer == 4 * sum(counted.values())


def test_an_adapter_trains_alone() -> None:
    adapter: Adapter = Lora(rank=8, targets=("q_proj", "v_proj"))
    spec = LLAMA_3["8B"].model_copy(update={"adapter": adapter})
    held = rank(spec, Run(recipe="bf16", optimizer="adamw"))
    assert held.trained == 32 * 8 * (4096 + 4096 + 4096 + 1024)
    assert held.gradients == 2 * held.trained
    assert held.optimizer == 8 * held.trained
    assert held.weights == 2 * (8_030_261_248 + held.trained)


def test_layers_that_are_all_one_are_gathered_once() -> None:
    """ALBERT under ZeRO-3: beside its half and what stands outside, a rank holds the one layer, never a second copy."""
    config = transformers.AlbertConfig(
        vocab_size=96,
        embedding_size=16,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=4,
        num_attention_heads=4,
        architectures=["AlbertForMaskedLM"],
    )
    spec = from_config(config.to_dict())
    with torch.device("meta"):
        model = transformers.AlbertForMaskedLM(config)
    everything = sum(parameter.numel() for parameter in model.parameters())
    layer = sum(parameter.numel() for parameter in model.albert.encoder.albert_layer_groups.parameters())
    plan = Run(mode="training", seq=16, recipe="bf16-fsdp", dp=2, zero=3, execution="sdpa")
    found = memory_ranks(spec, plan)[0]
    half, gathered = 4 * -(-everything // 2), 2 * (everything - layer)
    assert found.terms["weights"] == half + gathered + 2 * layer
    for moment in ("forward", "loss", "backward, last layer", "backward, first layer"):
        assert found.moments[moment]["weights"] == half + gathered + 2 * layer
    apart = spec.model_copy(update={"layers": (spec.layers[0].model_copy(update={"shared": False}),)})
    assert rank(apart, plan).following == rank(apart, plan).unit == 2 * layer
