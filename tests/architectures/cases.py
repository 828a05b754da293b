"""Small configs of every family, each turning on a part of the family's rule that others leave off."""

from __future__ import annotations

from typing import Any

# Shared by the families that name their sizes as Llama does. Window and pattern sizes are below the sequences tested.
LLAMA = {
    "vocab_size": 97,
    "hidden_size": 64,
    "intermediate_size": 80,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}
GPT2 = {"vocab_size": 97, "n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 64}
EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}
QWEN_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
SHARED = QWEN_EXPERTS | {"shared_expert_intermediate_size": 40}
SLIDING, FULL = "sliding_attention", "full_attention"
MIXED = [FULL, SLIDING, SLIDING, FULL]

BASES: dict[str, dict[str, Any]] = {
    "gpt2": GPT2,
    "gpt_neo": {
        "vocab_size": 97,
        "hidden_size": 64,
        "num_layers": 4,
        "num_heads": 4,
        "max_position_embeddings": 64,
        "attention_types": [[["global", "local"], 2]],
        "window_size": 5,
    },
    "gpt_neox": {k: v for k, v in LLAMA.items() if k != "num_key_value_heads"},
    "gptj": GPT2 | {"rotary_dim": 8},
    "opt": {
        "vocab_size": 97,
        "hidden_size": 64,
        "ffn_dim": 96,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "word_embed_proj_dim": 64,
        "max_position_embeddings": 64,
    },
    "bloom": {"vocab_size": 97, "hidden_size": 64, "n_layer": 3, "n_head": 4},
    "mpt": {"vocab_size": 97, "d_model": 64, "n_layers": 3, "n_heads": 4, "max_seq_len": 64},
    "falcon": {"vocab_size": 97, "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 8},
    "llama": LLAMA,
    "mistral": LLAMA | {"sliding_window": 6},
    "mixtral": LLAMA | EXPERTS,
    "qwen2": LLAMA,
    "qwen2_moe": LLAMA | SHARED,
    "qwen3": LLAMA | {"head_dim": 12},
    "qwen3_moe": LLAMA | QWEN_EXPERTS | {"head_dim": 12},
    "gemma": LLAMA | {"head_dim": 12},
    "gemma2": LLAMA | {"head_dim": 12, "sliding_window": 6},
    "gemma3_text": LLAMA | {"head_dim": 12, "sliding_window": 6, "num_hidden_layers": 7},
    "phi": LLAMA,
    "phi3": LLAMA,
    "phimoe": LLAMA | EXPERTS,
    "stablelm": LLAMA,
    "gpt_bigcode": GPT2,
    "starcoder2": LLAMA,
    "olmo": LLAMA,
    "olmo2": LLAMA,
    "olmo3": LLAMA | {"sliding_window": 6},
    "olmoe": LLAMA | {"num_experts": 4, "num_experts_per_tok": 2},
    "flex_olmo": LLAMA | {"num_experts": 4, "num_experts_per_tok": 2},
    "granite": LLAMA,
    "hyperclovax": LLAMA,
    "granitemoe": LLAMA | EXPERTS,
    "granitemoeshared": LLAMA | EXPERTS | {"shared_intermediate_size": 40},
    "cohere": LLAMA,
    "cohere2": LLAMA | {"sliding_window": 6, "num_hidden_layers": 6},
    "dbrx": {
        "vocab_size": 97,
        "d_model": 64,
        "n_layers": 3,
        "n_heads": 8,
        "max_seq_len": 64,
        "attn_config": {"kv_n_heads": 2, "rope_theta": 10000.0, "clip_qkv": 8.0},
        "ffn_config": {"ffn_hidden_size": 24, "moe_num_experts": 4, "moe_top_k": 2, "hidden_size": 64},
    },
    "gpt_oss": LLAMA | EXPERTS | {"head_dim": 12, "sliding_window": 6},
    "glm": LLAMA | {"head_dim": 12},
    "glm4": LLAMA | {"head_dim": 12},
    "exaone4": LLAMA | {"sliding_window": 6},
    "smollm3": LLAMA,
    "minicpm": LLAMA,
}

VARIANTS: dict[str, tuple[dict[str, Any], ...]] = {
    "gpt2": ({"n_inner": 48}, {"tie_word_embeddings": False}),
    "gpt_neo": ({"intermediate_size": 48}, {"tie_word_embeddings": False}),
    "gpt_neox": (
        {"use_parallel_residual": False},
        {"attention_bias": False},
        {"tie_word_embeddings": True},
    ),
    "gptj": ({"n_inner": 48},),
    "opt": (
        {"word_embed_proj_dim": 32},
        {"do_layer_norm_before": False},
        {"enable_bias": False, "tie_word_embeddings": False},
        {"layer_norm_elementwise_affine": False},
    ),
    "bloom": ({"tie_word_embeddings": False},),
    "mpt": ({"tie_word_embeddings": False},),
    "falcon": (
        {"multi_query": False},
        {"new_decoder_architecture": True, "num_kv_heads": 8},
        {"new_decoder_architecture": True, "num_kv_heads": 8, "num_ln_in_parallel_attn": 1},
        {"parallel_attn": False, "bias": True, "alibi": True},
        {"ffn_hidden_size": 48, "tie_word_embeddings": False},
    ),
    "llama": (
        {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True},
        {"head_dim": 12, "num_key_value_heads": None},
        {"pretraining_tp": 2, "head_dim": None},
    ),
    "mistral": ({"sliding_window": None, "head_dim": 12}, {"tie_word_embeddings": True}),
    "mixtral": ({"head_dim": 12, "sliding_window": 6}, {"tie_word_embeddings": True}),
    "qwen2": (
        {"use_sliding_window": True, "sliding_window": 6, "max_window_layers": 1},
        {"use_sliding_window": True, "sliding_window": 6, "layer_types": MIXED},
        {"use_sliding_window": False, "sliding_window": 6, "tie_word_embeddings": True},
        {"head_dim": 12, "num_key_value_heads": None},
    ),
    "qwen2_moe": (
        {"use_sliding_window": True, "sliding_window": 6, "max_window_layers": 3},
        {"use_sliding_window": True, "sliding_window": 6, "layer_types": MIXED, "mlp_only_layers": [1]},
        {"decoder_sparse_step": 2, "qkv_bias": False},
        {"mlp_only_layers": [0, 3], "tie_word_embeddings": True},
        {"num_experts": 0},
    ),
    "qwen3": (
        {"attention_bias": True, "tie_word_embeddings": True},
        {"use_sliding_window": True, "sliding_window": 6, "max_window_layers": 2},
        {"use_sliding_window": True, "sliding_window": 6, "layer_types": MIXED},
    ),
    "qwen3_moe": (
        {"attention_bias": True, "use_sliding_window": True, "sliding_window": 6},
        {"decoder_sparse_step": 3, "mlp_only_layers": [2], "tie_word_embeddings": True},
        {"mlp_only_layers": [0]},
    ),
    "gemma": ({"attention_bias": True, "tie_word_embeddings": False}, {"hidden_act": "gelu"}),
    "gemma2": (
        {"attention_bias": True, "attn_logit_softcapping": None},
        {"layer_types": MIXED, "tie_word_embeddings": False},
    ),
    "gemma3_text": (
        {"sliding_window_pattern": 3},
        {"attention_bias": True, "layer_types": [*MIXED, *MIXED[:3]], "tie_word_embeddings": False},
    ),
    "phi": ({"qk_layernorm": True}, {"tie_word_embeddings": True}),
    "phi3": (
        {"sliding_window": 6, "num_key_value_heads": None},
        {"tie_word_embeddings": True, "partial_rotary_factor": 0.5},
    ),
    "phimoe": ({"attention_bias": True, "lm_head_bias": True, "sliding_window": 6}, {"tie_word_embeddings": True}),
    "stablelm": (
        {"use_qkv_bias": True, "qk_layernorm": True},
        {"use_parallel_residual": True, "tie_word_embeddings": True},
    ),
    "gpt_bigcode": ({"multi_query": False}, {"n_inner": 48, "tie_word_embeddings": False}),
    "starcoder2": (
        {"use_bias": False, "sliding_window": 6},
        {"tie_word_embeddings": False},
    ),
    "olmo": ({"attention_bias": True, "clip_qkv": 8.0, "tie_word_embeddings": True},),
    "olmo2": ({"attention_bias": True, "tie_word_embeddings": True},),
    "olmo3": ({"layer_types": MIXED, "attention_bias": True, "tie_word_embeddings": True},),
    "olmoe": ({"attention_bias": True, "tie_word_embeddings": True},),
    "flex_olmo": ({"attention_bias": True, "tie_word_embeddings": True, "num_key_value_heads": None},),
    "granite": ({"attention_bias": True, "mlp_bias": True, "head_dim": 12}, {"tie_word_embeddings": True}),
    "hyperclovax": (
        {"attention_bias": True, "mlp_bias": True, "head_dim": 12},
        {"use_post_norm": False, "tie_word_embeddings": True},
    ),
    "granitemoe": ({"attention_bias": True, "tie_word_embeddings": True}, {"num_key_value_heads": None}),
    "granitemoeshared": (
        {"attention_bias": True, "tie_word_embeddings": True, "num_key_value_heads": None},
        {"shared_intermediate_size": 0},
    ),
    "cohere": ({"use_qk_norm": True}, {"attention_bias": True, "tie_word_embeddings": False}),
    "cohere2": ({"layer_types": [*MIXED, FULL, SLIDING]}, {"attention_bias": True, "tie_word_embeddings": False}),
    "gpt_oss": ({"attention_bias": False, "layer_types": MIXED}, {"tie_word_embeddings": True}),
    "glm": ({"attention_bias": False, "tie_word_embeddings": True},),
    "glm4": ({"attention_bias": False, "tie_word_embeddings": True},),
    "exaone4": (
        {"layer_types": MIXED, "sliding_window_pattern": "LLLG", "head_dim": 12},
        {"sliding_window": None, "layer_types": [FULL] * 4, "tie_word_embeddings": True},
        {"sliding_window_pattern": 3},
    ),
    "smollm3": (
        {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": False},
        {"use_sliding_window": True, "sliding_window": 6, "no_rope_layers": [1, 0, 0, 1]},
        {"use_sliding_window": True, "sliding_window": 6, "layer_types": MIXED, "no_rope_layer_interval": 2},
    ),
    "minicpm": ({"tie_word_embeddings": False},),
}


def all_cases() -> list[tuple[str, dict[str, Any]]]:
    """(model_type, config without model_type) of every base and every variant."""
    return [(name, base | extra) for name, base in BASES.items() for extra in ({}, *VARIANTS.get(name, ()))]
