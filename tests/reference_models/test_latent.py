"""Latent attention as a module: counted against `calc`, decoded in both readings, held to transformers' classes."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from calc.architectures import from_config  # noqa: E402
from calc.quantities.flops import forward  # noqa: E402
from calc.spec import LayerGroup, Lora, Mla, ModelSpec  # noqa: E402
from calc.spec.load import Load  # noqa: E402
from harness.counter import count  # noqa: E402
from reference_models import Model, build  # noqa: E402
from reference_models.adapters import adapt  # noqa: E402
from reference_models.blocks.latent import LatentAttention  # noqa: E402
from reference_models.quantization import Grid, quantize  # noqa: E402
from tests.architectures.cases_latent import BASE, INDEXED, LATENT, LATENT_CASES, V2, V3, V4  # noqa: E402
from tests.architectures.cases_recent import HY4, RECENT  # noqa: E402
from tests.architectures.cases_vision import SEEING, inside  # noqa: E402
from tests.reference_models.counted import routed_evenly  # noqa: E402
from tests.reference_models.test_counts import check  # noqa: E402
from tests.reference_models.test_values import values  # noqa: E402
from tests.reference_models.weights import copy_weights, vary  # noqa: E402

SEQ = 12
YARN = {
    "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "rope_theta": 500.0,
    "mscale": 1.0, "mscale_all_dim": 0.7,
}  # fmt: skip
# With few heads all products of a pair may be negative: scores of 0 are alike, and which of them is chosen is chance.
MANY_HEADS = INDEXED | {"index_n_heads": 24}
FAR = {"index_n_heads": 24, "rms_norm_eps": 0.03, "hc_eps": 0.02, "swiglu_limit": 0.5, "linear_lower_bound": -1.3}
FAR |= {"routed_scaling_factor": 1.7, "hc_sinkhorn_iters": 3}
CASES: list[tuple[str, dict[str, Any]]] = [
    ("deepseek_v3", V3),
    ("deepseek_v3", LATENT_CASES["deepseek_v3"][1]),
    ("deepseek_v3", V3 | {"rope_parameters": YARN, "routed_scaling_factor": 2.5, "norm_topk_prob": False}),
    ("deepseek_v2", V2),
    ("deepseek_v2", V2 | {"q_lora_rank": None, "topk_method": "greedy"}),
    ("deepseek_v32", V3 | MANY_HEADS),
    ("glm_moe_dsa", V3 | MANY_HEADS),
    ("glm_moe_dsa", V3 | MANY_HEADS | {"index_topk_pattern": "FSSF", "first_k_dense_replace": 1}),
    ("glm_moe_dsa", V3 | MANY_HEADS | {"indexer_types": ["full", "shared"] * 2, "first_k_dense_replace": 4}),
    ("minicpm3", BASE | LATENT),
    *(
        ("mistral_large4", inside("text_config", config, index_n_heads=24, index_topk=8))
        for config in SEEING["mistral_large4"]
    ),
    ("hy_v4", HY4 | {"index_n_heads": 24}),
    *(("glm5_next", config | {"text_config": config["text_config"] | FAR}) for config in SEEING["glm5_next"]),
    *(("longcat_flash", config) for config in RECENT["longcat_flash"]),
    *(("deepseek_v4", config | {"index_n_heads": 24}) for config in LATENT_CASES["deepseek_v4"]),
    ("deepseek_v4", V4 | {"rope_parameters": YARN, "routed_scaling_factor": 2.5, "index_n_heads": 24}),
]
each_case = pytest.mark.parametrize(("model_type", "config"), CASES)


def text_of(model_type: str, config: dict[str, Any]) -> ModelSpec:
    """The language model that a config describes, without a tower beside it."""
    return from_config({"model_type": model_type, **config}).model_copy(update={"vision": None})


def pair(model_type: str, config: dict[str, Any]) -> tuple[Any, Model]:
    """transformers' model of a config, with weights and router biases far from their initial ones, and ours like it."""
    torch.manual_seed(0)
    tokens = {"pad_token_id": None, "bos_token_id": 1, "eos_token_id": 1}
    # A copy: what a config class folds into its nested objects would stay in them.
    nested = {"text_config": tokens | config["text_config"]} if "text_config" in config else tokens
    parsed = transformers.AutoConfig.for_model(model_type, **deepcopy(config | nested))
    auto = transformers.AutoModelForImageTextToText if "text_config" in config else transformers.AutoModelForCausalLM
    # Grouped products want widths that these are not.
    plain = {"attn_implementation": "eager", "experts_implementation": "batched_mm"}
    theirs = auto.from_config(parsed, **plain).eval()
    for name in ("visual", "vision_tower", "multi_modal_projector"):
        if hasattr(theirs.model, name):
            setattr(theirs.model, name, None)
    vary(theirs)
    ours = build(text_of(model_type, config))
    copy_weights(theirs, ours, model_type)
    return theirs, ours


@pytest.mark.slow
@each_case
def test_counts(model_type: str, config: dict[str, Any]) -> None:
    check(text_of(model_type, config), "full")


@each_case
@torch.no_grad()
def test_same_logits(model_type: str, config: dict[str, Any]) -> None:
    theirs, ours = pair(model_type, config)
    tokens = torch.randint(97, (2, SEQ))
    torch.testing.assert_close(ours(tokens).logits, theirs(tokens).logits, rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_values_of_mistral_large_4() -> None:
    """Those that no count shows, each far from what its class takes; and what the class takes of a short config."""
    config = SEEING["mistral_large4"][1]
    parsed = transformers.AutoConfig.for_model("mistral_large4", **deepcopy(config))
    saved = json.loads(parsed.to_json_string(use_diff=False))
    assert values(from_config({"model_type": "mistral_large4", **config})) == values(from_config(saved))
    turned = {"rope_type": "yarn", "rope_theta": 37.0, "factor": 4.0, "original_max_position_embeddings": 16}
    own = {"rms_norm_eps": 0.03, "final_logit_softcapping": 2.0, "routed_scaling_factor": 1.7, "index_n_heads": 24}
    for rope in (turned | {"mscale": 1.0, "mscale_all_dim": 0.7}, {"rope_type": "default", "rope_theta": 37.0}):
        theirs, ours = pair("mistral_large4", inside("text_config", config, rope_parameters=rope, **own))
        tokens = torch.randint(97, (2, SEQ))
        torch.testing.assert_close(ours(tokens).logits, theirs(tokens).logits, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("config", SEEING["glm5_next"])
@torch.no_grad()
def test_pools_begin_behind_padding(config: dict[str, Any]) -> None:
    """Tokens behind padding choose as they do alone, and as transformers' do, at once and out of a cache."""
    theirs, ours = pair("glm5_next", config | {"text_config": config["text_config"] | FAR})
    tokens, keep = torch.randint(97, (2, 2 * SEQ)), torch.ones(2, 2 * SEQ, dtype=torch.bool)
    keep[1, :5] = False
    found, cache = ours(tokens, keep=keep).logits, ours.new_cache()
    close = {"rtol": 1e-4, "atol": 1e-4}
    torch.testing.assert_close(found[keep], theirs(tokens, attention_mask=keep.long()).logits[keep], **close)
    torch.testing.assert_close(found[1:, 5:], ours(tokens[1:, 5:]).logits, **close)
    ours(tokens[:, :-1], keep=keep[:, :-1], cache=cache)
    torch.testing.assert_close(ours(tokens[:, -1:], keep=keep[:, -1:], cache=cache).logits, found[:, -1:], **close)


@each_case
@torch.no_grad()
def test_decoding_in_both_readings(model_type: str, config: dict[str, Any]) -> None:
    """Token by token with a cache, expanded and absorbed, as in one parallel pass."""
    model = build(text_of(model_type, config), dtype=torch.float64)
    tokens = torch.randint(97, (2, SEQ))
    expected = model(tokens).logits
    for absorbed in (False, True):
        _read(model, absorbed)
        for cache in (model.new_cache(), model.new_cache(SEQ)):
            steps = [
                model(tokens[:, :5], cache=cache),
                *(model(tokens[:, i : i + 1], cache=cache) for i in range(5, SEQ)),
            ]
            found = torch.cat([step.logits for step in steps], dim=1)
            torch.testing.assert_close(found, expected)


@each_case
@torch.no_grad()
def test_flops_of_absorbed_decoding(model_type: str, config: dict[str, Any]) -> None:
    spec = text_of(model_type, config)
    model = routed_evenly(build(spec, dtype=torch.bfloat16))
    cache = model.new_cache()
    tokens = torch.zeros(2, SEQ, dtype=torch.long)
    model(tokens, cache=cache)
    _read(model, True)
    load = Load(batch=2, seq=1, context=SEQ, decode=True, absorbed=True)
    assert count(lambda: model(tokens[:, :1], cache=cache)) == forward(spec, load).total


@pytest.mark.parametrize("quantized", [False, True])
@torch.no_grad()
def test_both_readings_of_a_matrix_with_an_update(quantized: bool) -> None:
    model = build(from_config({"model_type": "deepseek_v3", **V3}), dtype=torch.float64)
    if quantized:
        quantize(model, Grid(8, group=None))
    tokens = torch.randint(97, (2, SEQ), generator=torch.Generator().manual_seed(0))
    before = model(tokens).logits
    adapt(model, Lora(rank=2, targets=("kv_b_proj",)))
    for name, parameter in model.named_parameters():
        if "lora" in name:
            parameter.normal_(generator=torch.Generator().manual_seed(1))
    expanded = model(tokens).logits
    _read(model, True)
    assert not torch.allclose(expanded, before)
    torch.testing.assert_close(model(tokens).logits, expanded)


def test_recomputed_layers_reuse_what_was_chosen_for_them() -> None:
    """Going back, layers run last first: those before the last indexer must not find its choice."""
    pattern = {"index_topk_pattern": "FSFS", "first_k_dense_replace": 4}
    model = build(from_config({"model_type": "glm_moe_dsa", **(V3 | MANY_HEADS | pattern)}), dtype=torch.float64)
    tokens = torch.randint(97, (2, SEQ), generator=torch.Generator().manual_seed(0))

    def gradients(checkpointing: Any) -> list[Any]:
        model.zero_grad()
        model(tokens, checkpointing=checkpointing).logits.square().mean().backward()
        return [p.grad if p.grad is None else p.grad.clone() for p in model.parameters()]

    for plain, again in zip(gradients("none"), gradients("full"), strict=True):
        torch.testing.assert_close(plain, again)


def test_a_choice_that_no_layer_made() -> None:
    mixer = Mla(n_heads=2, q_rank=4, kv_rank=4, d_nope=2, d_rope=2, d_value=2, top_k=3)
    with pytest.raises(ValueError, match="indexer: expected one in this layer or in one before it"):
        ModelSpec(d_model=8, vocab_size=9, layers=(LayerGroup(count=1, mixer=mixer),))


def _read(model: Model, absorbed: bool) -> None:
    for module in model.modules():
        if isinstance(module, LatentAttention):
            module.absorbed = absorbed
