"""Latent attention as a module: counted against `calc`, decoded in both readings, held to transformers' classes."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from calc.architectures import from_config  # noqa: E402
from calc.load import Load  # noqa: E402
from calc.quantities.flops import forward  # noqa: E402
from harness.counter import count  # noqa: E402
from reference_models import Model, build  # noqa: E402
from reference_models.blocks.latent import LatentAttention  # noqa: E402
from tests.architectures.cases_latent import BASE, INDEXED, LATENT, LATENT_CASES, V2, V3  # noqa: E402
from tests.reference_models.test_counts import check  # noqa: E402
from tests.reference_models.test_transformers import copy_weights  # noqa: E402

SEQ = 12
YARN = {
    "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "rope_theta": 500.0,
    "mscale": 1.0, "mscale_all_dim": 0.7,
}  # fmt: skip
# With few heads all products of a pair may be negative: scores of 0 are alike, and which of them is chosen is chance.
MANY_HEADS = INDEXED | {"index_n_heads": 24}
CASES: list[tuple[str, dict[str, Any]]] = [
    ("deepseek_v3", V3),
    ("deepseek_v3", LATENT_CASES["deepseek_v3"][1]),
    ("deepseek_v3", V3 | {"rope_parameters": YARN, "routed_scaling_factor": 2.5, "norm_topk_prob": False}),
    ("deepseek_v2", V2),
    ("deepseek_v2", V2 | {"q_lora_rank": None, "topk_method": "greedy"}),
    ("deepseek_v32", V3 | MANY_HEADS),
    ("glm_moe_dsa", V3 | MANY_HEADS),
    ("minicpm3", BASE | LATENT),
]
each_case = pytest.mark.parametrize(("model_type", "config"), CASES)


def pair(model_type: str, config: dict[str, Any]) -> tuple[Any, Model]:
    """transformers' model of a config, with weights and router biases far from their initial ones, and ours like it."""
    torch.manual_seed(0)
    tokens = {"pad_token_id": None, "bos_token_id": 1, "eos_token_id": 1}
    parsed = transformers.AutoConfig.for_model(model_type, **(tokens | config))
    # Grouped products want widths that these are not.
    plain = {"attn_implementation": "eager", "experts_implementation": "batched_mm"}
    theirs = transformers.AutoModelForCausalLM.from_config(parsed, **plain).eval()
    for parameter in theirs.parameters():
        parameter.data.add_(0.1 * torch.randn_like(parameter))
    ours = build(from_config({"model_type": model_type, **config}))
    copy_weights(theirs, ours, model_type)
    given = [b for name, b in theirs.named_buffers() if name.endswith("e_score_correction_bias")]
    taken = [b for name, b in ours.named_buffers() if name.endswith("correction")]
    for one, other in zip(given, taken, strict=True):
        one.data.normal_()
        other.data.copy_(one)
    return theirs, ours


@each_case
def test_counts(model_type: str, config: dict[str, Any]) -> None:
    check(from_config({"model_type": model_type, **config}), "full")


@each_case
@torch.no_grad()
def test_same_logits(model_type: str, config: dict[str, Any]) -> None:
    theirs, ours = pair(model_type, config)
    tokens = torch.randint(97, (2, SEQ))
    torch.testing.assert_close(ours(tokens).logits, theirs(tokens).logits, rtol=1e-4, atol=1e-4)


@each_case
@torch.no_grad()
def test_decoding_in_both_readings(model_type: str, config: dict[str, Any]) -> None:
    """Token by token with a cache, expanded and absorbed, as in one parallel pass."""
    model = build(from_config({"model_type": model_type, **config}), dtype=torch.float64)
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
    spec = from_config({"model_type": model_type, **config})
    model = build(spec, "meta", torch.bfloat16)
    cache = model.new_cache()
    tokens = torch.zeros(2, SEQ, dtype=torch.long, device="meta")
    model(tokens, cache=cache)
    _read(model, True)
    load = Load(batch=2, seq=1, context=SEQ, decode=True, absorbed=True)
    assert count(lambda: model(tokens[:, :1], cache=cache)) == forward(spec, load).total


def test_what_no_module_computes() -> None:
    shared = from_config({"model_type": "glm_moe_dsa", **LATENT_CASES["glm_moe_dsa"][1]})
    with pytest.raises(NotImplementedError, match="reuses what an earlier layer chose"):
        build(shared, "meta")


def _read(model: Model, absorbed: bool) -> None:
    for module in model.modules():
        if isinstance(module, LatentAttention):
            module.absorbed = absorbed
