"""Small configs of families with latent or compressed attention, or with many experts, each turning on another rule."""

from __future__ import annotations

from typing import Any

BASE = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "max_position_embeddings": 64,
}
LATENT = {"q_lora_rank": 12, "kv_lora_rank": 10, "qk_nope_head_dim": 6, "qk_rope_head_dim": 4, "v_head_dim": 5}
EXPERTS = {"n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 14}
GROUPS = {"n_group": 4, "topk_group": 2}
INDEXED = {"index_n_heads": 3, "index_head_dim": 6, "index_topk": 5}
V2 = BASE | LATENT | EXPERTS | {"topk_method": "group_limited_greedy", "first_k_dense_replace": 1} | GROUPS
V3 = BASE | LATENT | EXPERTS | GROUPS
V4 = {
    "vocab_size": 97, "hidden_size": 32, "num_hidden_layers": 5, "num_attention_heads": 4, "head_dim": 8,
    "q_lora_rank": 12, "o_groups": 2, "o_lora_rank": 6, "sliding_window": 6, "hc_mult": 3,
    "compress_rates": {"compressed_sparse_attention": 2, "heavily_compressed_attention": 4},
    "qk_rope_head_dim": 4, "max_position_embeddings": 64,
} | EXPERTS | INDEXED  # fmt: skip
GQA = BASE | {"num_key_value_heads": 2, "head_dim": 12}
MIXTRAL = {"num_local_experts": 4, "num_experts_per_tok": 2}
ROUTED = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 14}
GROUPED = BASE | {"num_key_value_heads": 2}
ERNIE = GROUPED | {"moe_num_experts": 8, "moe_k": 2, "moe_intermediate_size": 14}
HUNYUAN = GQA | {"num_experts": 8, "moe_topk": 2}
DOTS = GROUPED | EXPERTS | {"n_shared_experts": 1}
EXAONE = GROUPED | ROUTED | {"sliding_window": 6}
AFMOE = GQA | ROUTED | {"sliding_window": 6}

LATENT_CASES: dict[str, tuple[dict[str, Any], ...]] = {
    "deepseek_v2": (
        V2,
        V2 | {"q_lora_rank": None, "topk_method": "greedy", "n_group": None, "n_shared_experts": 1},
        V2 | {"attention_bias": True, "first_k_dense_replace": 0, "tie_word_embeddings": True},
    ),
    "deepseek_v3": (
        V3,
        V3 | {"q_lora_rank": None, "n_group": 1, "topk_group": 1, "rope_interleave": False, "n_shared_experts": 2},
        V3 | {"attention_bias": True, "first_k_dense_replace": 0, "norm_topk_prob": False, "tie_word_embeddings": True},
        V3 | {"first_k_dense_replace": 9, "num_nextn_predict_layers": 2},
    ),
    "deepseek_v32": (
        V3 | INDEXED,
        V3 | INDEXED | {"mlp_layer_types": ["sparse", "dense", "sparse", "sparse"], "attention_bias": True},
    ),
    "glm_moe_dsa": (
        V3 | INDEXED | {"n_group": 1, "topk_group": 1},
        V3 | INDEXED | {"indexer_types": ["full", "shared", "full", "shared"], "first_k_dense_replace": 1},
        V3 | INDEXED | {"index_topk_freq": 2, "index_skip_topk_offset": 1},
        V3 | INDEXED | {"index_topk_pattern": "FSSF"},
    ),
    "deepseek_v4": (
        V4,
        V4 | {"layer_types": [
            "sliding_attention", "heavily_compressed_attention", "compressed_sparse_attention", "sliding_attention",
            "compressed_sparse_attention",
        ]},
        {k: v for k, v in V4.items() if k != "compress_rates"}
        | {"compress_ratios": [128, 4, 0, 4, 128, 0], "compress_rate_hca": 8},
        V4 | {"compress_rate_csa": 3, "scoring_func": "sigmoid", "mlp_layer_types": ["moe"] * 5, "hc_mult": 1},
    ),
    "minicpm3": (
        BASE | LATENT,
        BASE | LATENT | {"q_lora_rank": None, "v_head_dim": None, "scale_depth": None, "dim_model_base": None},
        {k: v for k, v in (BASE | LATENT).items() if k != "v_head_dim"} | {"tie_word_embeddings": False},
    ),
    "glm4_moe": (
        GQA | EXPERTS,
        GQA | EXPERTS | {"use_qk_norm": True, "attention_bias": True, "first_k_dense_replace": 2} | GROUPS,
        {k: v for k, v in (GQA | EXPERTS).items() if k != "head_dim"} | {"first_k_dense_replace": 0},
    ),
    "glm4_moe_lite": (
        BASE | LATENT | EXPERTS,
        BASE | LATENT | EXPERTS | GROUPS | {"mlp_layer_types": ["sparse", "dense", "sparse", "sparse"]}
        | {"attention_bias": True, "tie_word_embeddings": True},
        BASE | LATENT | EXPERTS | {"q_lora_rank": None, "rope_interleave": False, "n_shared_experts": 2}
        | {"num_nextn_predict_layers": 1, "norm_topk_prob": False},
    ),
    "ernie4_5_moe": (
        ERNIE,
        ERNIE | {"moe_layer_start_index": 2, "moe_num_shared_experts": 0, "tie_word_embeddings": False},
        ERNIE | {"moe_layer_interval": 2, "moe_layer_end_index": 2},
    ),
    "hunyuan_v1_moe": (
        HUNYUAN,
        HUNYUAN | {"attention_bias": True, "moe_topk": [2, 3, 3, 1], "tie_word_embeddings": True},
        HUNYUAN | {"num_key_value_heads": None, "moe_intermediate_size": [48] * 4, "num_shared_expert": [1] * 4},
    ),
    "dots1": (
        DOTS,
        DOTS | GROUPS | {"attention_bias": True, "first_k_dense_replace": 2, "tie_word_embeddings": True},
        DOTS | {"sliding_window": 6, "max_window_layers": 3, "num_key_value_heads": None, "n_shared_experts": 2},
        DOTS | {"sliding_window": 6, "layer_types": ["sliding_attention", "full_attention"] * 2},
        DOTS | {"sliding_window": None, "norm_topk_prob": True},
    ),
    "solar_open": (
        GQA | EXPERTS,
        GQA | EXPERTS | GROUPS | {"attention_bias": True, "n_shared_experts": 2, "tie_word_embeddings": True},
    ),
    "exaone_moe": (
        EXAONE,
        EXAONE | GROUPS | {"sliding_window_pattern": 2, "first_k_dense_replace": 2, "num_shared_experts": 2},
        EXAONE | {"sliding_window_pattern": "LG", "layer_types": ["sliding_attention", "full_attention"] * 2}
        | {"mlp_layer_types": ["sparse", "dense"] * 2, "tie_word_embeddings": True, "head_dim": 12},
    ),
    "afmoe": (
        AFMOE,
        AFMOE | {"global_attn_every_n_layers": 2, "num_dense_layers": 0, "mup_enabled": True},
        AFMOE | {"layer_types": ["full_attention", "sliding_attention"] * 2, "num_dense_layers": 2}
        | {"num_key_value_heads": None, "num_shared_experts": 1, "tie_word_embeddings": True},
    ),
    "minimax": (
        GQA | MIXTRAL | {"block_size": 4},
        GQA | MIXTRAL | {"block_size": 64, "head_dim": None, "tie_word_embeddings": True},
        GQA | MIXTRAL | {"layer_types": ["linear_attention", "full_attention", "full_attention", "linear_attention"]},
    ),
    "minimax_m2": (GQA | MIXTRAL, GQA | MIXTRAL | {"rotary_dim": 6, "tie_word_embeddings": True}),
    "mimo_v2_flash": (
        GQA | EXPERTS | {"v_head_dim": 7, "num_hidden_layers": 7, "sliding_window": 6, "num_key_value_heads": 2},
        GQA | EXPERTS | {"v_head_dim": 7, "num_key_value_heads": 1, "sliding_window_size": 4, "attention_bias": True}
        | {"swa_num_key_value_heads": 2, "hybrid_layer_pattern": [0, 1, 1, 1], "moe_layer_freq": [0, 1, 1, 1]},
        GQA | EXPERTS | {"v_head_dim": 12, "sliding_window": 6}
        | {"layer_types": ["sliding_attention", "full_attention"] * 2, "mlp_layer_types": ["sparse", "dense"] * 2},
    ),
}  # fmt: skip
