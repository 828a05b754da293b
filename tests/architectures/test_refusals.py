"""What an importer is given that is not a config: it reads a description or refuses in one line, nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from calc.architectures import from_config
from calc.errors import Refused
from calc.quantities.parameters import parameters
from calc.spec import ModelSpec
from tests.architectures.cases import BASES, VARIANTS

BAD_SIZES = [None, True, -1, 0, 0.5, 8.0, 2**31 + 1, 10**400, float("nan"), float("inf"), "64", [64], {"64": 64}]
# Whole numbers of the cases that change no count, or nothing unless another key asks for them.
UNREAD = {"rotary_dim", "window_size"}
CORE = ("vocab_size", "hidden_size", "n_embd", "d_model", "num_hidden_layers", "n_layer", "n_layers", "num_layers")

numbers = st.integers(-3, 200) | st.sampled_from([2**31, 2**31 + 1, 10**400]) | st.floats()
scalars = st.none() | st.booleans() | numbers | st.text(max_size=8) | st.sampled_from(["\n", "\x1b[31m", "gelu", "LLG"])
garbage = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
each_family = pytest.mark.parametrize("model_type", sorted(BASES))


def config_of(model_type: str) -> dict[str, Any]:
    return {"model_type": model_type, **BASES[model_type]}


def assert_one_line(error: Refused) -> None:
    assert str(error).isprintable(), str(error)
    assert len(str(error)) < 600


@pytest.mark.slow
@each_family
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_reads_or_refuses(model_type: str, data: st.DataObject) -> None:
    """Up to four keys of a good config are dropped, or hold anything; a nested object may be hit inside."""
    variants = VARIANTS.get(model_type, ())
    raw = config_of(model_type) | data.draw(st.sampled_from([{}, *variants]))
    known = sorted({*raw, *(key for variant in variants for key in variant)} - {"model_type"})
    for key in data.draw(st.lists(st.sampled_from(known), min_size=1, max_size=4, unique=True)):
        place = raw
        if isinstance(raw.get(key), dict) and raw[key] and data.draw(st.booleans()):
            raw[key] = place = dict(raw[key])
            key = data.draw(st.sampled_from(sorted(place)))
        if data.draw(st.booleans()):
            place[key] = data.draw(garbage)
        else:
            place.pop(key, None)
    try:
        spec = from_config(raw)
    except Refused as error:
        assert_one_line(error)
        return
    assert isinstance(spec, ModelSpec)
    assert sum(parameters(spec).values()) > 0


@each_family
def test_refuses_every_bad_size(model_type: str) -> None:
    """Each whole number in turn is replaced; the refusal names the key. Null and 0 may be fine."""
    for key, good in BASES[model_type].items():
        if type(good) is not int or key in UNREAD:
            continue
        for bad in BAD_SIZES:
            if bad in (None, 0) and key not in CORE:
                continue
            with pytest.raises(Refused) as caught:
                from_config(config_of(model_type) | {key: bad})
            assert caught.value.field == key
            assert_one_line(caught.value)


@each_family
def test_core_sizes_are_never_assumed(model_type: str) -> None:
    """Gemma 3's published configs leave the vocabulary to the class; nothing else of these may be absent."""
    for key in CORE:
        if key in BASES[model_type] and (model_type, key) != ("gemma3_text", "vocab_size"):
            raw = config_of(model_type)
            del raw[key]
            with pytest.raises(Refused) as caught:
                from_config(raw)
            assert (caught.value.field, caught.value.found) == (key, "nothing")


WINDOW = {"use_sliding_window": True, "sliding_window": 6}


@pytest.mark.parametrize(
    ("model_type", "change", "field"),
    [
        ("llama", {"num_attention_heads": 7}, "hidden_size"),
        ("llama", {"num_key_value_heads": 3}, "num_key_value_heads"),
        ("llama", {"hidden_act": "prelu"}, "hidden_act"),
        ("llama", {"sliding_window": 6}, "sliding_window"),
        ("llama", {"layer_types": ["full_attention"] * 3}, "layer_types"),
        ("llama", {"layer_types": ["sliding_attention"] * 4}, "layer_types"),
        ("llama", {"per_layer_config": {"0": {"num_attention_heads": 2}}}, "per_layer_config"),
        ("gpt2", {"n_head": 7}, "n_embd"),
        ("gpt2", {"hidden_size": 32}, "hidden_size"),
        ("gpt2", {"add_cross_attention": True}, "add_cross_attention"),
        ("mistral", {"layer_types": ["full_attention"] * 4}, "layer_types"),
        ("mixtral", {"num_experts_per_tok": 5}, "top_k"),
        ("qwen2", {"head_dim": None}, "head_dim"),
        ("qwen2", {"use_sliding_window": None}, "use_sliding_window"),
        ("qwen2", WINDOW | {"layer_types": ["chunked_attention"] * 4}, "layer_types"),
        ("qwen2", {"layer_types": ["sliding_attention"] * 4}, "sliding_window"),
        ("qwen2", {"num_attention_heads": 6}, "num_attention_heads"),
        ("qwen2_moe", {"decoder_sparse_step": 0}, "decoder_sparse_step"),
        ("qwen2_moe", {"mlp_only_layers": [0.0]}, "mlp_only_layers"),
        ("qwen3", {"head_dim": None}, "head_dim"),
        ("gemma", {"use_bidirectional_attention": True}, "use_bidirectional_attention"),
        ("gemma2", {"sliding_window": None}, "sliding_window"),
        ("gemma3_text", {"sliding_window_pattern": 0}, "sliding_window_pattern"),
        ("phi3", {"attention_bias": True}, "attention_bias"),
        ("phimoe", {"num_experts_per_tok": 1}, "num_experts_per_tok"),
        ("exaone4", {"sliding_window_pattern": "LXG"}, "sliding_window_pattern"),
        ("smollm3", {"no_rope_layers": [1, 0]}, "no_rope_layers"),
        ("gpt_oss", {"experts_per_token": 3}, "experts_per_token"),
    ],
)
def test_refuses(model_type: str, change: dict[str, Any], field: str) -> None:
    with pytest.raises(Refused) as caught:
        from_config(config_of(model_type) | change)
    assert caught.value.field == field
    assert_one_line(caught.value)


@pytest.mark.parametrize(
    ("config", "nearest"),
    [
        ({"model_type": "lama"}, "llama"),
        ({"model_type": "qwen9_moe"}, "qwen3_moe"),
        ({"model_type": "zzyzx", "kv_lora_rank": 512, "num_experts": 8}, "deepseek_v3"),
        ({"model_type": "zzyzx", "num_experts": 8, "rms_norm_eps": 1e-6}, "qwen3_moe"),
        ({"model_type": "zzyzx", "text_config": {"model_type": "qwen3"}, "vision_config": {}}, "qwen3"),
        ({"model_type": "zzyzx", "text_config": {"rms_norm_eps": 1e-6}}, "llama"),
        ({"model_type": "zzyzx", "image_size": 224}, "vit"),
        ({"type_vocab_size": 2}, "bert"),
        ({"model_type": "zzyzx", "num_experts": [[]], "text_config": 7}, "qwen3_moe"),
    ],
)
def test_an_unknown_type_is_told_the_nearest_family(config: dict[str, Any], nearest: str) -> None:
    with pytest.raises(Refused) as refusal:
        from_config(config)
    assert refusal.value.field == "model_type"
    assert f"nearest: {nearest}" in refusal.value.expected
