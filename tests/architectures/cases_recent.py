"""Small configs of decoders of 2026, each turning on a part of the family's rule that others leave off."""

from __future__ import annotations

from typing import Any

from tests.architectures.cases_latent import BASE, EXPERTS, GQA, INDEXED, LATENT, MIXTRAL, ROUTED

PLAIN = {key: value for key, value in GQA.items() if key != "head_dim"}
GRANITE = PLAIN | {"sliding_window": 6, "num_hidden_layers": 6}
KINDS = ["sliding_attention", "full_attention"] * 2

LAGUNA = GQA | ROUTED | {"shared_expert_intermediate_size": 20, "sliding_window": 6}
STEP = GQA | EXPERTS | {"pad_token_id": 0, "share_expert_dim": 20, "layer_types": KINDS[::-1], "sliding_window": 6}
COHERE = GQA | {"num_experts": 4, "sliding_window": 6}
DENSE_FIRST = {"first_k_dense_replace": 1, "prefix_dense_intermediate_size": 40}

JETMOE = {key: value for key, value in (BASE | MIXTRAL).items() if key != "num_attention_heads"}
JETMOE |= {"num_key_value_heads": 2, "kv_channels": 12}
FLINT = GQA | ROUTED | {"shared_expert_intermediate_size": 20, "sliding_window": 6}
KOLIBRI = {key: value for key, value in FLINT.items() if key != "intermediate_size"}

LARGE4_TEXT = BASE | EXPERTS | INDEXED | {key: width for key, width in LATENT.items() if key != "q_lora_rank"}
LARGE4_TEXT |= {"num_hidden_layers": 6}
LONGCAT = {
    key: value for key, value in (BASE | LATENT).items() if key not in ("num_hidden_layers", "intermediate_size")
}
LONGCAT |= {"num_layers": 2, "head_dim": 4, "ffn_hidden_size": 48, "n_routed_experts": 8, "expert_ffn_hidden_size": 14}
# Without experts that give back what they read: of those, what is computed is a matter of where tokens go.
LONGCAT |= {"moe_topk": 3, "zero_expert_num": 0}
HY4 = BASE | LATENT | EXPERTS | INDEXED | {"hc_mult": 3}
ZAYA = GQA | ROUTED | {"num_experts_per_tok": 1, "router_hidden_size": 20, "sliding_window": 6}
ZAYA |= {"layer_types": ["hybrid", "hybrid", "hybrid_sliding", "hybrid"]}
GEMMA3N = GQA | {
    "num_hidden_layers": 6,
    "layer_types": ["sliding_attention", "full_attention"] * 3,
    "sliding_window": 6,
    "vocab_size_per_layer_input": 97,
    "hidden_size_per_layer_input": 8,
    "num_kv_shared_layers": 2,
    "activation_sparsity_pattern": [0.9, 0.9, 0.0, 0.9, 0.0, 0.0],
}

RECENT: dict[str, tuple[dict[str, Any], ...]] = {
    "mistral4": (
        BASE | LATENT | EXPERTS,
        BASE | LATENT | EXPERTS | {"q_lora_rank": None, "rope_interleave": False, "n_shared_experts": 2}
        | {"first_k_dense_replace": 2, "norm_topk_prob": False, "n_group": 4, "topk_group": 2},
        BASE | LATENT | EXPERTS | {"attention_bias": True, "tie_word_embeddings": True, "routed_scaling_factor": 1.5},
    ),
    "laguna": (
        LAGUNA,
        LAGUNA | {"layer_types": KINDS, "num_attention_heads_per_layer": [4, 6, 4, 2], "attention_bias": True},
        LAGUNA | {"mlp_layer_types": ["sparse", "dense", "sparse", "dense"], "tie_word_embeddings": True},
    ),
    "step3p5": (
        STEP | {"num_sliding_attention_heads": 6, "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"]},
        STEP | {"moe_layers_enum": "0,2,3", "mlp_bias": True, "attention_bias": True, "tie_word_embeddings": True}
        | {"swiglu_limits": [0.5, None, 0, 0.7], "swiglu_limits_shared": [0.4, 0.6, 0, 0.6]},
        STEP | {"layer_types": [*KINDS, "full_attention"], "num_nextn_predict_layers": 1, "mlp_layer_types": None}
        | {"rope_theta": [70.0, 50.0, 70.0, 50.0, 3.0], "partial_rotary_factors": [1.0, 0.5, 1.0, 0.5, 0.1]}
        | {"attention_other_setting": {"num_attention_heads": 8, "head_dim": GQA["head_dim"]}},
    ),
    "bitnet": (PLAIN, PLAIN | {"attention_bias": True, "tie_word_embeddings": True, "hidden_act": "silu"}),
    "cohere2_moe": (
        COHERE,
        COHERE | DENSE_FIRST | {"num_shared_experts": 2, "shared_expert_combination_strategy": "sum"}
        | {"rms_norm_eps": 1e-5, "expert_selection_fn": "sigmoid", "attention_bias": True},
        COHERE | DENSE_FIRST | {"first_k_dense_replace": 2, "prefix_dense_sliding_window_pattern": 2}
        | {"sliding_window_pattern": 2, "norm_topk_prob": False, "tie_word_embeddings": False},
        COHERE | {"expert_selection_fn": "sigmoid", "norm_topk_prob": False},
    ),
    "axk1": (
        BASE | LATENT | EXPERTS | {"n_group": 4, "topk_group": 2},
        BASE | LATENT | EXPERTS | {"n_group": 1, "topk_group": 1, "first_k_dense_replace": 0, "moe_layer_freq": 2},
        BASE | LATENT | EXPERTS | {"n_group": 1, "topk_group": 1, "rope_interleave": False, "n_shared_experts": 2}
        | {"mlp_layer_types": ["sparse", "dense", "sparse", "sparse"], "attention_bias": True},
    ),
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
    "hy_v4": (
        HY4,
        HY4 | {"indexer_types": ["full", "shared"] * 2, "mlp_layer_types": ["sparse", "dense", "sparse", "sparse"]}
        | {"hc_mult": 2, "attention_bias": True, "tie_word_embeddings": True, "norm_topk_prob": False},
        HY4 | {"n_group": 4, "topk_group": 2, "n_shared_experts": 2, "num_hidden_layers": 6},
    ),
    "longcat_flash": (
        LONGCAT,
        LONGCAT | {"zero_expert_num": 4, "attention_bias": True, "tie_word_embeddings": True},
        LONGCAT | {"zero_expert_num": 8, "moe_topk": 4, "num_layers": 3, "num_key_value_heads": None},
        LONGCAT | {"zero_expert_num": 0, "routed_scaling_factor": 1.5, "num_layers": 1, "num_hidden_layers": 2},
    ),
    "gemma3n_text": (
        GEMMA3N,
        GEMMA3N | {"num_kv_shared_layers": 0, "altup_num_inputs": 2, "attention_bias": True, "altup_active_idx": 1},
        GEMMA3N | {"intermediate_size": [40, 48, 40, 56, 40, 40], "num_kv_shared_layers": 3, "laurel_rank": 3}
        | {"activation_sparsity_pattern": [0.8, 0.0, 0.8, 0.5, 0.0, 0.0], "tie_word_embeddings": False},
        GEMMA3N | {"layer_types": ["sliding_attention", "full_attention"] * 3, "hidden_activation": "silu"},
    ),
    "mellum": (
        GQA | ROUTED,
        GQA | ROUTED | {"layer_types": KINDS, "sliding_window": 6, "norm_topk_prob": False, "attention_bias": True},
        GQA | ROUTED | {"mlp_layer_types": ["dense", "dense", "sparse", "sparse"], "tie_word_embeddings": True},
    ),
    "jetmoe": (JETMOE, JETMOE | {"num_key_value_heads": 1, "num_experts_per_tok": 3, "tie_word_embeddings": False}),
    "diffllama": (GQA, PLAIN | {"attention_bias": True, "tie_word_embeddings": True, "num_key_value_heads": 4}),
    "doge": (
        PLAIN | {"keep_window_size": 7},
        PLAIN | {"num_key_value_heads": None, "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True},
        PLAIN | {"sliding_window": 6, "keep_window_size": 4},
        PLAIN | {"keep_window_size": 38, "is_moe": True, "num_experts": 30, "num_experts_per_tok": 4},
        PLAIN
        | {"keep_window_size": 38, "is_moe": True, "num_experts": 16, "num_experts_per_tok": 16, "mlp_bias": True}
        | {"hidden_act": "gelu"},
    ),
    "zaya": (
        ZAYA,
        ZAYA | {"cca_time0": 3, "cca_time1": 1, "attention_bias": True, "lm_head_bias": True},
        ZAYA | {"cca_time0": 1, "cca_time1": 4, "layer_types": ["hybrid_sliding"] * 4, "tie_word_embeddings": False},
        ZAYA | {"layer_types": None, "num_key_value_heads": 1, "num_hidden_layers": 1, "hidden_act": "gelu"},
    ),
    "apertus": (PLAIN, PLAIN | {"attention_bias": True, "tie_word_embeddings": True, "hidden_act": "silu"}),
    "kolibri1": (
        KOLIBRI,
        KOLIBRI | {"layer_types": KINDS, "norm_topk_prob": True, "tie_word_embeddings": True},
        KOLIBRI | {"layer_types": ["full_attention"] * 4},
    ),
    "flint": (
        FLINT,
        FLINT | {"layer_types": KINDS, "mlp_only_layers": [3], "attention_bias": True, "norm_topk_prob": False},
        FLINT | {"decoder_sparse_step": 2, "mlp_only_layers": [], "tie_word_embeddings": True},
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
