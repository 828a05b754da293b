"""Small configs of further dense decoders, each turning on a part of the family's rule that others leave off."""

from __future__ import annotations

from typing import Any

from tests.architectures.cases import FULL, GPT2, LLAMA, MIXED

OWN = LLAMA | {"head_dim": 12}
XGLM = {
    "vocab_size": 97,
    "d_model": 64,
    "ffn_dim": 80,
    "num_layers": 3,
    "attention_heads": 4,
    "max_position_embeddings": 64,
}

DENSE: dict[str, tuple[dict[str, Any], ...]] = {
    "ministral": (
        OWN | {"sliding_window": 6},
        OWN | {"sliding_window": 6, "layer_types": MIXED, "tie_word_embeddings": True},
        OWN | {"sliding_window": 6, "layer_types": [FULL] * 4, "hidden_act": "gelu"},
    ),
    "ministral3": (
        OWN,
        OWN | {"sliding_window": 6, "tie_word_embeddings": True},
        LLAMA | {"head_dim": 8},
    ),
    "seed_oss": (
        OWN,
        OWN | {"attention_bias": False, "attention_out_bias": True, "tie_word_embeddings": True},
        OWN | {"mlp_bias": True, "head_dim": None, "num_key_value_heads": None},
    ),
    "nemotron": (
        LLAMA,
        OWN | {"attention_bias": True, "tie_word_embeddings": True},
        LLAMA | {"mlp_bias": True, "head_dim": None, "hidden_act": "silu"},
    ),
    "arcee": (
        LLAMA,
        OWN | {"attention_bias": True, "tie_word_embeddings": True},
        LLAMA | {"mlp_bias": True, "head_dim": None, "num_key_value_heads": None},
    ),
    "ernie4_5": (
        OWN,
        OWN | {"use_bias": True, "tie_word_embeddings": False},
        OWN | {"use_bias": None, "head_dim": None, "num_key_value_heads": None},
    ),
    "internlm3": (
        OWN,
        OWN | {"qkv_bias": True, "bias": True, "tie_word_embeddings": True},
        OWN | {"attention_bias": True, "mlp_bias": True, "head_dim": None, "num_key_value_heads": None},
    ),
    "hunyuan_v1_dense": (
        OWN,
        OWN | {"attention_bias": True, "tie_word_embeddings": True, "num_key_value_heads": None},
    ),
    "cwm": (
        OWN | {"sliding_window": 6},
        OWN | {"sliding_window": 6, "layer_types": MIXED[::-1], "mlp_bias": True, "tie_word_embeddings": True},
    ),
    "helium": (
        LLAMA | {"head_dim": 8},
        LLAMA | {"head_dim": 8, "attention_bias": True, "tie_word_embeddings": True},
        LLAMA | {"head_dim": 8, "mlp_bias": True},
    ),
    "vaultgemma": (
        OWN | {"sliding_window": 6},
        OWN | {"sliding_window": 6, "attention_bias": True, "attn_logit_softcapping": None, "layer_types": MIXED},
        OWN | {"sliding_window": 6, "tie_word_embeddings": False, "final_logit_softcapping": None},
    ),
    "nanochat": (
        LLAMA,
        OWN | {"attention_bias": True, "tie_word_embeddings": True, "final_logit_softcapping": None},
        LLAMA | {"num_key_value_heads": None},
    ),
    "codegen": (
        GPT2 | {"rotary_dim": 8},
        GPT2 | {"rotary_dim": 4, "n_inner": 48, "tie_word_embeddings": True},
    ),
    "biogpt": (
        {k: v for k, v in LLAMA.items() if k != "num_key_value_heads"},
        LLAMA | {"scale_embedding": False, "hidden_act": "relu", "tie_word_embeddings": False},
    ),
    "xglm": (
        XGLM,
        XGLM | {"scale_embedding": False, "activation_function": "relu", "tie_word_embeddings": False},
    ),
    "persimmon": (
        {k: v for k, v in LLAMA.items() if k != "num_key_value_heads"},
        LLAMA | {"qk_layernorm": False, "tie_word_embeddings": True},
    ),
    "jais2": (
        LLAMA,
        OWN | {"attention_bias": False, "tie_word_embeddings": True},
        LLAMA | {"mlp_bias": False, "head_dim": None, "num_key_value_heads": None},
    ),
}


def dense_cases() -> list[tuple[str, dict[str, Any]]]:
    """(model_type, config without model_type) of every case."""
    return [(name, config) for name, configs in DENSE.items() for config in configs]
