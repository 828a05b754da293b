"""State-space models, delta nets and their hybrids against transformers' own classes of the same config, at small size.

Counted there: elements of each parameter; FLOPs of matrix products and convolutions of a short sequence, of one that
fills several chunks, of going back and of one more token; bytes of keys, values, convolution inputs and states.
"""

from __future__ import annotations

import json
from math import prod
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from calc.architectures import from_config  # noqa: E402
from calc.errors import Refused  # noqa: E402
from calc.quantities.flops import forward, training  # noqa: E402
from calc.quantities.kv_cache import kv_cache  # noqa: E402
from calc.quantities.parameters import parameter_shapes  # noqa: E402
from calc.spec.load import Load  # noqa: E402
from harness.counter import count  # noqa: E402
from tests.architectures.cases_recurrent import (  # noqa: E402
    BAMBA,
    FALCON,
    GRIFFIN,
    JAMBA,
    KIMI,
    LFM2,
    MAMBA,
    MAMBA2,
    NEMOTRON,
    NGRAMS,
    OLMO,
    QWEN,
    QWEN4,
    RECURRENT,
    ROUTED,
    ZAMBA,
)
from tests.architectures.cases_vision import SEEING  # noqa: E402
from tests.architectures.renaming import compare, named_parameters  # noqa: E402

BATCH, SHORT, LONG = 2, 11, 145
CASES = [(model_type, config) for model_type, configs in RECURRENT.items() for config in configs]
each_case = pytest.mark.parametrize(("model_type", "config"), CASES)


def build(model_type: str, config: dict[str, Any]) -> Any:
    """transformers' model on the CPU: which experts run depends on values."""
    special = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 1}
    nested = "text_config" in config
    text = {"text_config": special | config["text_config"]} if nested else special
    parsed = transformers.AutoConfig.for_model(model_type, **(config | text))
    auto = transformers.AutoModelForImageTextToText if nested else transformers.AutoModelForCausalLM
    torch.manual_seed(0)
    return auto.from_config(parsed, attn_implementation="eager", experts_implementation="batched_mm").eval()


def held(cache: Any) -> int:
    """Bytes of everything in the cache but numbers of tokens."""
    found = []
    for layer in cache.layers:
        found += [getattr(layer, name, None) for name in ("keys", "values", "indexer_keys")]
        for states in (getattr(layer, "conv_states", None), getattr(layer, "recurrent_states", None)):
            found += list(states.values()) if isinstance(states, dict) else list(states or [])
    return sum(each.numel() * each.element_size() for each in found if each is not None and each.is_floating_point())


def held_by_blocks(model: Any) -> int:
    """Bytes of the states that RecurrentGemma's blocks keep themselves."""
    named = [getattr(m, name, None) for m in model.modules() for name in ("conv1d_state", "recurrent_states")]
    return sum(tensor.numel() * tensor.element_size() for tensor in named if tensor is not None)


def ids(seq: int) -> Any:
    return torch.ones(BATCH, seq, dtype=torch.long)


@pytest.mark.parametrize(("model_type", "config"), [case for case in CASES if case[0] != "rwkv"])
def test_same_as_transformers(model_type: str, config: dict[str, Any]) -> None:
    model = build(model_type, config)
    theirs = {path: parameter.numel() for path, parameter in named_parameters(model)}
    cache = transformers.DynamicCache(config=model.config.get_text_config())
    kept = {"cache_params" if hasattr(model, "backbone") else "past_key_values": cache}
    with torch.no_grad():
        short = count(lambda: model(ids(SHORT), use_cache=True, **kept))
        bytes_held = held(cache) + held_by_blocks(model)
        one = count(lambda: model(ids(1), use_cache=True, **kept))
        long = count(lambda: model(ids(LONG), use_cache=False))
    saved = json.loads(model.config.to_json_string(use_diff=False))
    # The config as people write it; then as transformers saves it, all defaults written.
    for raw in ({"model_type": model_type, **config}, saved):
        spec = from_config(raw)
        ours = {path: prod(shape) for path, shape in parameter_shapes(spec).items()}
        assert compare(theirs, ours, model_type) == {}
        assert forward(spec, Load(batch=BATCH, seq=SHORT)).total == short
        assert forward(spec, Load(batch=BATCH, seq=LONG)).total == long
        assert forward(spec, Load(batch=BATCH, seq=1, context=SHORT, decode=True)).total == one
        assert kv_cache(spec, BATCH, SHORT, "fp32", "cache").total_bytes == bytes_held


@pytest.mark.parametrize("config", RECURRENT["rwkv"])
def test_rwkv_whose_state_is_a_list(config: dict[str, Any]) -> None:
    """transformers' class keeps it as wide as the model, which keys and values need not be, and decodes one sequence:
    several it multiplies with one another."""
    model, spec = build("rwkv", config), from_config({"model_type": "rwkv", **config})
    theirs = {path: parameter.numel() for path, parameter in model.named_parameters()}
    ours = {path: prod(shape) for path, shape in parameter_shapes(spec).items()}
    assert compare(theirs, ours, "rwkv") == {}
    with torch.no_grad():
        assert forward(spec, Load(batch=BATCH, seq=LONG)).total == count(lambda: model(ids(LONG), use_cache=False))
        if "attention_hidden_size" in config:
            return
        state = model(ids(SHORT)[:1], use_cache=True).state
        one = count(lambda: model(ids(1)[:1], state=state, use_cache=True))
    assert forward(spec, Load(batch=1, seq=1, context=SHORT, decode=True)).total == one
    assert kv_cache(spec, 1, SHORT, "fp32", "cache").total_bytes == sum(each.nbytes for each in state)


@pytest.mark.slow
@pytest.mark.parametrize(("model_type", "config"), [*CASES, *(("glm5_next", each) for each in SEEING["glm5_next"])])
def test_going_back(model_type: str, config: dict[str, Any]) -> None:
    model, spec = build(model_type, config), from_config({"model_type": model_type, **config})
    both = count(lambda: model(ids(LONG), use_cache=False).logits.sum().backward())
    assert training(spec, Load(batch=BATCH, seq=LONG)).total == both


def test_modules_that_predict_further_tokens_are_left_out_with_a_note() -> None:
    plain = {"model_type": "nemotron_h", **NEMOTRON}
    found = from_config(plain | {"num_nextn_predict_layers": 2})
    assert found.mtp is None
    notes = [note for note in found.notes if "num_nextn_predict_layers is 2: left out" in str(note)]
    assert len(notes) == 1
    assert set(found.notes) == {*from_config(plain).notes, *notes}


@pytest.mark.parametrize(
    ("model_type", "config", "field"),
    [
        ("mamba", MAMBA | {"intermediate_size": 65}, "intermediate_size"),
        ("mamba", MAMBA | {"time_step_rank": "five"}, "time_step_rank"),
        ("mamba2", MAMBA2 | {"num_heads": 6}, "num_heads"),
        ("mamba2", MAMBA2 | {"n_groups": 3}, "n_groups"),
        ("jamba", JAMBA | {"attn_layer_offset": 3}, "attn_layer_offset"),
        ("bamba", BAMBA | {"attn_layer_indices": [3]}, "attn_layer_indices"),
        ("bamba", BAMBA | {"mamba_d_head": 7}, "mamba_d_head"),
        ("nemotron_h", NEMOTRON | {"hybrid_override_pattern": "MEX"}, "hybrid_override_pattern"),
        ("nemotron_h", NEMOTRON | {"hybrid_override_pattern": None}, "hybrid_override_pattern"),
        ("nemotron_h", NEMOTRON | {"num_hidden_layers": 5}, "num_hidden_layers"),
        ("nemotron_h", NEMOTRON | {"tie_word_embeddings": True}, "tie_word_embeddings"),
        ("nemotron_h", NEMOTRON | {"mlp_bias": True}, "mlp_bias"),
        ("nemotron_h", NEMOTRON | {"ssm_state_size": 1}, "ssm_state_size"),
        ("nemotron_h", NEMOTRON | {"chunk_size": 1}, "chunk_size"),
        ("mamba2", MAMBA2 | {"chunk_size": 1}, "chunk_size"),
        ("falcon_h1", FALCON | {"mamba_chunk_size": 1}, "mamba_chunk_size"),
        ("zamba2", ZAMBA | {"mamba_d_state": 1}, "mamba_d_state"),
        ("falcon_h1", FALCON | {"mamba_d_state": 1}, "mamba_d_state"),
        ("falcon_h1", FALCON | {"mamba_proj_bias": True}, "projectors_bias"),
        ("falcon_h1", FALCON | {"ssm_multipliers": [1.0, 2.0]}, "ssm_multipliers"),
        ("falcon_h1", FALCON | {"mamba_d_head": 7}, "mamba_d_head"),
        ("falcon_h1", FALCON | {"mamba_d_ssm": 50}, "mamba_d_ssm"),
        ("kimi_linear", KIMI | {"tie_word_embeddings": True}, "tie_word_embeddings"),
        ("kimi_linear", KIMI | {"mla_use_nope": False}, "mla_use_nope"),
        (
            "kimi_linear",
            KIMI | {"linear_attn_config": {"full_attn_layers": [3], "kda_layers": [1, 2]}},
            "linear_attn_config.kda_layers",
        ),
        ("recurrent_gemma", GRIFFIN | {"block_types": ["attention", "mamba"]}, "block_types"),
        ("recurrent_gemma", GRIFFIN | {"block_types": None}, "block_types"),
        ("recurrent_gemma", GRIFFIN | {"block_types": ["recurrent"], "num_hidden_layers": 101}, "num_hidden_layers"),
        ("recurrent_gemma", GRIFFIN | {"layer_types": ["linear_attention"] * 5}, "layer_types"),
        ("recurrent_gemma", GRIFFIN | {"lru_width": 33}, "n_blocks"),
        ("recurrent_gemma", GRIFFIN | {"rope_scaling": {"type": "linear", "factor": 2.0}}, "rope_parameters"),
        ("recurrent_gemma", GRIFFIN | {"logits_soft_cap": None}, "logits_soft_cap"),
        ("zamba2", {k: v for k, v in ZAMBA.items() if k != "layers_block_type"}, "layers_block_type"),
        ("zamba2", ZAMBA | {"use_conv_bias": False}, "use_conv_bias"),
        ("zamba2", ZAMBA | {"tie_word_embeddings": False}, "tie_word_embeddings"),
        ("zamba2", ZAMBA | {"use_long_context": True}, "use_long_context"),
        ("zamba2", ZAMBA | {"n_mamba_heads": 7}, "mamba_expand * hidden_size"),
        ("lfm2", LFM2 | {"layer_types": ["conv", "linear_attention", "conv"]}, "layer_types"),
        ("lfm2", LFM2 | {"block_ff_dim": None}, "block_ff_dim"),
        ("lfm2_moe", LFM2 | ROUTED, "layer_types"),
        ("olmo_hybrid", OLMO | {"hidden_act": "gelu"}, "hidden_act"),
        ("qwen3_5_text", QWEN | {"attn_output_gate": False}, "attn_output_gate"),
        ("qwen3_5_text", QWEN | {"linear_num_value_heads": 3}, "n_value_heads"),
        ("qwen4_exp_text", QWEN4 | {"indexer_n_heads": None}, "indexer_n_heads"),
        ("qwen4_exp_text", QWEN4 | {"indexer_kv_heads": 2}, "indexer_kv_heads"),
        ("qwen4_exp_text", QWEN4 | {"indexer_budget": 6}, "budget"),
        ("qwen4_exp_text", QWEN4 | {"indexer_head_dim": 8}, "indexer.d_head"),
        ("qwen4_exp_text", QWEN4 | {"hc_count": 1}, "hc_count"),
        ("qwen4_exp_text", QWEN4 | {"output_gate_type": "tanh"}, "output_gate_type"),
        ("qwen4_exp_text", QWEN4 | {"layer_types": ["sliding_attention"] * 4}, "layer_types"),
        ("qwen4_exp_text", QWEN4 | NGRAMS | {"ple_layer_ids": [4]}, "ple_layer_ids"),
        ("qwen4_exp_text", QWEN4 | NGRAMS | {"ngram_size": 1}, "ngram_size"),
        ("qwen4_exp_text", QWEN4 | NGRAMS | {"ple_embed_dim": 25}, "heads"),
        ("qwen4_exp_text", QWEN4 | NGRAMS | {"ple_conv_kernel_size": 1}, "ple_conv_kernel_size"),
        ("qwen4_exp_text", QWEN4 | NGRAMS | {"eos_token_id": None}, "eos_token_id"),
    ],
)
def test_refused(model_type: str, config: dict[str, Any], field: str) -> None:
    with pytest.raises(Refused) as caught:
        from_config({"model_type": model_type, **config})
    assert caught.value.field == field


@pytest.mark.parametrize("key", ["layer_types", "layers_block_type"])
def test_griffins_pattern_is_the_class_own_where_its_derived_list_is_null(key: str) -> None:
    """transformers, which derives that list, builds nothing where a config gives it."""
    config = {"model_type": "recurrent_gemma", **GRIFFIN}
    config.pop("block_types", None)
    plain, null = from_config(config), from_config(config | {key: None})
    assert plain.schedule is not None
    assert plain.schedule[:3] == ("recurrent", "recurrent", "sliding")
    assert (null.layers, null.schedule) == (plain.layers, plain.schedule)
