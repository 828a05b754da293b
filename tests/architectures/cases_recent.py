"""Small configs of decoders of 2026, each turning on a part of the family's rule that others leave off."""

from __future__ import annotations

from typing import Any

from tests.architectures.cases_latent import BASE, GQA, LATENT, MIXTRAL, ROUTED

PLAIN = {key: value for key, value in GQA.items() if key != "head_dim"}
GRANITE = PLAIN | {"sliding_window": 6, "num_hidden_layers": 6}
KINDS = ["sliding_attention", "full_attention"] * 2

RECENT: dict[str, tuple[dict[str, Any], ...]] = {
    "iquestcoder": (GQA, PLAIN | {"head_dim": None, "attention_bias": True, "mlp_bias": True}),
    "youtu": (
        BASE | LATENT,
        BASE | LATENT | {"q_lora_rank": None, "rope_interleave": False, "tie_word_embeddings": False},
        BASE | LATENT | {"attention_bias": True},
    ),
    "hy_v3": (
        GQA | ROUTED,
        GQA | ROUTED | {"num_shared_experts": 2, "attention_bias": True, "tie_word_embeddings": True},
        GQA | ROUTED | {"mlp_layer_types": ["sparse", "dense", "sparse", "dense"]},
    ),
    "mellum": (
        GQA | ROUTED,
        GQA | ROUTED | {"layer_types": KINDS, "sliding_window": 6, "norm_topk_prob": False, "attention_bias": True},
        GQA | ROUTED | {"mlp_layer_types": ["dense", "dense", "sparse", "sparse"], "tie_word_embeddings": True},
    ),
    "granite_swa": (
        GRANITE,
        GRANITE | {"attention_bias": True, "mlp_bias": True, "num_key_value_heads": None, "tie_word_embeddings": False},
        GRANITE | {"layer_rope_theta": [0, 500.0, 500.0, 0, 20.0, 20.0], "layer_types": ["full_attention"] * 6},
    ),
    "granitemoe_swa": (
        GRANITE | MIXTRAL,
        GRANITE | MIXTRAL | {"shared_intermediate_size": 20, "layer_rope_theta": [0.0, 30.0] * 3},
    ),
}  # fmt: skip
