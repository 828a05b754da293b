"""What costs nothing and yet changes what a model computes: epsilons, angles, multipliers, caps, clamps.

Every family that reads text, with all such keys of its config far from their defaults, against transformers' model of
the same config with the same weights, all tokens at once and one by one out of a cache.
"""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from calc.architectures import FAMILIES, from_config  # noqa: E402
from calc.architectures.classes import CLASSES  # noqa: E402
from calc.errors import Refused  # noqa: E402
from calc.spec import ModelSpec, Node  # noqa: E402
from reference_models import Model, build  # noqa: E402
from tests.architectures.cases import LLAMA  # noqa: E402
from tests.architectures.cases_hearing import HEARING  # noqa: E402
from tests.architectures.cases_media import MEDIA  # noqa: E402
from tests.architectures.cases_text import TEXT  # noqa: E402
from tests.architectures.cases_vision import SEEING  # noqa: E402
from tests.architectures.headed import HEADED  # noqa: E402
from tests.architectures.test_text import build as text_model  # noqa: E402
from tests.architectures.test_text import inputs  # noqa: E402
from tests.reference_models.test_text import arguments, their_results  # noqa: E402
from tests.reference_models.values import CASES, COUNTED, IGNORED, NOT_READ, OTHERWISE, VALUES, defaults, values_of  # noqa: E402
from tests.reference_models.weights import copy_weights, vary  # noqa: E402

SEEN = {
    name
    for name in (
        *SEEING,
        *HEARING,
        "qwen3_5",
        "qwen3_5_moe",
        "qwen4_exp",
        "kimi_k25",
        "qwen2_5_omni",
        "qwen3_omni_moe",
        "qwen2_5_omni_talker",
        "gemma3n",
    )
    if not name.endswith("_text")
}
"""Families that see or hear; their language models are families here."""
SEQ, PROMPT = 40, 33
YARN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "rope_theta": 500.0}
STEP_ANGLES = {"rope_theta": [17.0, 50.0, 17.0, 50.0], "partial_rotary_factors": [0.5, 1.0, 0.5, 1.0]}
STEP_ANGLES |= {
    "layer_types": ["full_attention", "sliding_attention"] * 2,
    "rope_scaling": {"rope_type": "llama3", "factor": 2.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    | {"original_max_position_embeddings": 16},
}


def test_every_family_that_reads_text_is_here() -> None:
    assert set(FAMILIES) - SEEN - set(MEDIA) == {*CASES, *TEXT, *OTHERWISE}


@pytest.mark.parametrize("model_type", [*CASES, *TEXT])
def test_every_switch_and_number_of_a_config_is_accounted_for(model_type: str) -> None:
    """Each flag and fraction of the class is given another value here, tested with the counts, or without effect."""
    found = {key for key, value in defaults(model_type).items() if isinstance(value, bool | float)}
    read = {key for key in (*VALUES, "norm_topk_prob") if (model_type, key) not in NOT_READ}
    assert found - read - COUNTED - IGNORED == {key for family, key in NOT_READ if family == model_type} & found


def values(node: Any, where: str = "") -> dict[str, Any]:
    """Everything in a description that is no size, by its path."""
    if isinstance(node, tuple):
        parts = {f"{where}[{i}]": child for i, child in enumerate(node)}
    elif isinstance(node, Node):
        kept = set(type(node).model_fields) - set(node.size_fields()) - {"notes"}
        parts = {f"{where}.{name}": getattr(node, name) for name in sorted(kept)}
    else:
        return {where: node}
    return {path: value for name, child in parts.items() for path, value in values(child, name).items()}


@pytest.mark.parametrize("model_type", CASES)
def test_what_a_config_leaves_out_is_what_the_class_says(model_type: str) -> None:
    """A config as people write it, and as transformers saves it: with all of the class's defaults."""
    written = CASES[model_type]
    saved = json.loads(their_config(model_type, written).to_json_string(use_diff=False))
    spec = from_config({"model_type": model_type, **written})
    assert values(spec) == values(from_config(saved))


def their_config(model_type: str, config: dict[str, Any]) -> Any:
    tokens = {"pad_token_id": None, "bos_token_id": 1, "eos_token_id": 1}
    return transformers.AutoConfig.for_model(model_type, **(tokens | deepcopy(config)))


def pair(model_type: str, config: dict[str, Any], twin: ModelSpec) -> tuple[Any, Model]:
    """transformers' model of a config, with weights and buffers far from their initial ones, and ours with the same."""
    torch.manual_seed(0)
    # Grouped products want widths that these are not. Falcon's eager attention adds ALiBi's numbers twice, as mask too.
    kernel = "sdpa" if model_type == "falcon" else "eager"
    plain = {"attn_implementation": kernel, "experts_implementation": "eager"}
    parsed = their_config(model_type, config)
    named = HEADED.get(model_type) or getattr(transformers, next(iter(CLASSES.get(model_type, {"": ""}))), None)
    make = transformers.AutoModelForCausalLM.from_config if named is None else getattr(named, "_from_config")  # noqa: B009
    theirs = make(parsed, **plain).eval()
    vary(theirs)
    ours = build(twin).eval()
    copy_weights(theirs, ours, model_type)
    return theirs, ours


def close(found: Any, expected: Any) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@torch.no_grad()
def check(theirs: Any, ours: Model) -> None:
    """Logits of all tokens at once, by both kernels, and of a prompt and then single tokens."""
    tokens = torch.randint(97, (2, SEQ))
    expected = theirs(tokens, use_cache=False).logits
    close(ours(tokens).logits, expected)
    close(ours(tokens, kernel="sdpa").logits, expected)
    cache = ours.new_cache()
    close(ours(tokens[:, :PROMPT], cache=cache).logits, expected[:, :PROMPT])
    for i in range(PROMPT, SEQ):
        close(ours(tokens[:, i : i + 1], cache=cache).logits, expected[:, i : i + 1])


@pytest.mark.parametrize("model_type", CASES)
def test_same_logits(model_type: str) -> None:
    config = CASES[model_type] | values_of(model_type)
    check(*pair(model_type, config, from_config({"model_type": model_type, **config})))


@pytest.mark.parametrize(
    ("model_type", "change"),
    [
        ("gpt2", {"scale_attn_by_inverse_layer_idx": False, "scale_attn_weights": True}),
        ("falcon", {"alibi": True}),
        ("falcon", {"new_decoder_architecture": True, "num_kv_heads": 4}),
        ("falcon", {"multi_query": False}),
        ("gpt_bigcode", {"multi_query": False}),
        ("mpt", {"attn_config": {"clip_qkv": 0.3, "softmax_scale": 0.2}}),
        ("minimax", {"sliding_window": 6}),
        ("phi", {"qk_layernorm": True}),
        ("stablelm", {"qk_layernorm": True, "use_parallel_residual": True}),
        ("cohere", {"use_qk_norm": True}),
        ("llama4_text", {"attn_temperature_tuning": False, "num_experts_per_tok": 2}),
        ("granitemoehybrid", {"num_local_experts": 0, "position_embedding_type": "rope"}),
        ("gemma4_text", {"enable_moe_block": True, "num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 24}),
        ("olmo3", {"rope_parameters": None}),
        ("gemma3_text", {"rope_parameters": None}),
        ("gpt_oss", {"rope_parameters": None}),
        ("gemma4_text", {"rope_parameters": None}),
        ("deepseek_v4", {"rope_parameters": None}),
        ("ministral3", {"rope_parameters": None}),
        ("cwm", {"rope_parameters": None}),
        ("hunyuan_v1_dense", {"rope_parameters": {"rope_type": "dynamic", "alpha": 3.0, "factor": 1.0}}),
        ("deepseek_v4", {"rope_parameters": None, "rope_scaling": YARN}),
        ("step3p5", {"rope_parameters": None}),
        ("step3p5", {"rope_parameters": None} | STEP_ANGLES),
        ("step3p5", {"num_sliding_attention_heads": 2, "mlp_bias": True, "attention_bias": True}),
    ],
)
def test_same_logits_of_variants(model_type: str, change: dict[str, Any]) -> None:
    config = {k: v for k, v in (CASES[model_type] | values_of(model_type) | change).items() if v is not None}
    check(*pair(model_type, config, from_config({"model_type": model_type, **config})))


@pytest.mark.parametrize("model_type", TEXT)
@torch.no_grad()
def test_same_results_of_other_readers_of_text(model_type: str) -> None:
    """Encoders, encoder-decoders and GPT-2's kin, by the class that the family is usually met as."""
    base, classes, _ = TEXT[model_type]
    config = base | values_of(model_type)
    theirs = text_model(model_type, classes[0], config).eval()
    for parameter in filter(lambda each: each.requires_grad, theirs.parameters()):
        parameter.copy_(0.3 * torch.randn_like(parameter))
    written = {"model_type": model_type, "architectures": classes[:1], "pad_token_id": theirs.config.pad_token_id}
    ours = build(from_config(written | {"architectures": [classes[0]]} | config)).eval()
    copy_weights(theirs, ours, model_type)
    batch = inputs(theirs)
    expected, out = theirs(**batch), ours(**arguments(batch))
    found = [t for t in (out.logits, *out.heads.values()) if t is not None]
    for value in their_results(expected):
        mine = [t.reshape(value.shape) for t in found if t.numel() == value.numel()]
        assert any(torch.allclose(t, value, rtol=1e-4, atol=1e-4) for t in mine), value.shape


def test_minicpm_is_granite_with_other_names() -> None:
    """Its class comes with the checkpoint; Granite multiplies in the same places."""
    own = {"scale_emb": 3.0, "scale_depth": 0.7, "dim_model_base": 16, "rms_norm_eps": 0.03, "rope_theta": 37.0}
    named = {
        "embedding_multiplier": 3.0,
        "residual_multiplier": 0.7 / LLAMA["num_hidden_layers"] ** 0.5,
        "logits_scaling": LLAMA["hidden_size"] / 16,
        "attention_multiplier": (LLAMA["hidden_size"] // LLAMA["num_attention_heads"]) ** -0.5,
        "tie_word_embeddings": True,
        "rms_norm_eps": 0.03,
        "rope_parameters": {"rope_type": "default", "rope_theta": 37.0},
    }
    check(*pair("granite", LLAMA | named, from_config({"model_type": "minicpm", **LLAMA, **own})))


@pytest.mark.parametrize(("name", "usual"), [("kimi_k2", "deepseek_v3"), ("gpt-sw3", "gpt2")])
def test_another_name(name: str, usual: str) -> None:
    config = CASES[usual] | values_of(usual)
    one, other = (from_config({"model_type": each, **config}) for each in (name, usual))
    assert values(one) | {".family": ""} == values(other) | {".family": ""}


@pytest.mark.parametrize(
    ("model_type", "key", "value"),
    [
        ("granite", "logits_scaling", 0),
        ("granitemoehybrid", "logits_scaling", 0),
        ("gptj", "rotary_dim", None),
        ("gptj", "rotary_dim", 32),
        ("mpt", "logit_scale", 0.5),
        ("gemma3_text", "attn_logit_softcapping", 5.0),
        ("mamba", "hidden_act", "gelu"),
        ("mamba2", "time_step_limit", [0.5, 0.1]),
        ("mamba2", "time_step_limit", 0.1),
        ("cohere2", "rope_parameters", {"sliding_attention": {"rope_type": "default", "rope_theta": 5.0}}),
        ("llama4_text", "attn_temperature_tuning", "yes"),
        ("ministral", "sliding_window", None),
        ("ministral3", "rope_parameters", {"rope_type": "default", "original_max_position_embeddings": 7}),
        ("ministral3", "rope_parameters", {"rope_type": "default", "llama_4_scaling_beta": 0.1}),
        ("helium", "head_dim", 12),
        ("internlm3", "bias", True),
        ("hunyuan_v1_dense", "use_qk_norm", False),
        ("hunyuan_v1_dense", "use_cla", True),
        ("codegen", "n_head", 2),
        ("codegen", "rotary_dim", None),
        ("xglm", "add_cross_attention", True),
        ("persimmon", "head_dim", 12),
    ],
)
def test_refused(model_type: str, key: str, value: Any) -> None:
    with pytest.raises(Refused, match=key):
        from_config({"model_type": model_type, **CASES[model_type], key: value})
