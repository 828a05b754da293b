"""Small configs of state-space and delta-net families and of hybrids, each variant turning on another rule."""

from __future__ import annotations

from typing import Any

BASE = {"vocab_size": 97, "hidden_size": 32, "num_hidden_layers": 3}
ATTENTION = {"num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48}
MAMBA = BASE | {"state_size": 6}
MAMBA2 = BASE | {"num_heads": 8, "head_dim": 8, "state_size": 6, "n_groups": 2, "chunk_size": 16}
HYBRID2 = {"mamba_n_heads": 8, "mamba_d_state": 6, "mamba_n_groups": 2, "mamba_chunk_size": 16}
JAMBA = BASE | ATTENTION | {"num_experts": 4, "attn_layer_period": 3, "attn_layer_offset": 1, "mamba_d_state": 6}
BAMBA = BASE | ATTENTION | HYBRID2 | {"attn_layer_indices": [1]}
GRANITE = BASE | ATTENTION | HYBRID2 | {"shared_intermediate_size": 40, "num_local_experts": 4}
NEMOTRON = {
    "vocab_size": 97, "hidden_size": 32, "hybrid_override_pattern": "ME*M-E",
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6, "intermediate_size": 48,
    "mamba_num_heads": 8, "mamba_head_dim": 6, "ssm_state_size": 5, "n_groups": 2, "chunk_size": 16,
    "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24,
    "moe_shared_expert_intermediate_size": 40,
}  # fmt: skip
DELTA = {"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 6, "linear_value_head_dim": 8}
QWEN = BASE | ATTENTION | DELTA | {"num_hidden_layers": 4, "head_dim": 16}
EXPERTS = {
    "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "shared_expert_intermediate_size": 40,
}  # fmt: skip
ROUTED = {key: value for key, value in EXPERTS.items() if key != "shared_expert_intermediate_size"}
STREAMS = {"hc_count": 3, "hc_lowrank": 5}
INDEXER = {
    "indexer_n_heads": 3, "indexer_kv_heads": 1, "indexer_head_dim": 16, "indexer_budget": 8,
    "indexer_compress_ratio": 4,
}  # fmt: skip
QWEN4 = {key: value for key, value in (QWEN | EXPERTS).items() if key != "intermediate_size"} | STREAMS | INDEXER
NGRAMS = {
    "ple_layer_ids": [3, 1], "ple_embed_dim": 24, "heads_per_ngram": 2, "ngram_vocab_size_base": 11,
    "make_ngram_vocab_size_divisible_by": 8, "eos_token_id": 1,
}  # fmt: skip
KIMI = BASE | {
    "num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": 48, "moe_intermediate_size": 16,
    "num_experts": 8,
    "num_experts_per_token": 2, "kv_lora_rank": 10, "qk_nope_head_dim": 6, "qk_rope_head_dim": 4, "v_head_dim": 5,
    "num_hidden_layers": 4,
    "linear_attn_config": {
        "full_attn_layers": [3], "kda_layers": [1, 2, 4], "head_dim": 6, "num_heads": 3, "short_conv_kernel_size": 3,
    },
}  # fmt: skip
BAILING = {key: value for key, value in KIMI.items() if key != "linear_attn_config"} | {
    "head_dim": 5, "short_conv_kernel_size": 3, "layer_group_size": 2, "num_expert_group": 4, "topk_group": 2,
}  # fmt: skip
RWKV = {"vocab_size": 97, "hidden_size": 24, "num_hidden_layers": 3, "context_length": 64}
GRIFFIN = BASE | ATTENTION | {"num_hidden_layers": 5, "attention_window_size": 6}
ZAMBA = BASE | {
    "num_hidden_layers": 7, "n_mamba_heads": 8, "mamba_d_state": 6, "mamba_ngroups": 2, "chunk_size": 16,
    "num_attention_heads": 4, "intermediate_size": 48, "adapter_rank": 5, "num_mem_blocks": 2,
    "layers_block_type": ["mamba", "hybrid", "mamba", "hybrid", "hybrid", "mamba", "hybrid"],
}  # fmt: skip
LFM2 = BASE | ATTENTION
LFM3 = {"num_hidden_layers": 5, "intermediate_size": 40, "head_dim": 12, "sliding_window": 6}
FALCON = BASE | ATTENTION | HYBRID2 | {"mamba_d_ssm": 48}
OLMO = BASE | ATTENTION | {"num_hidden_layers": 4}
TOWER = {
    "depth": 2, "hidden_size": 16, "intermediate_size": 24, "num_heads": 2, "out_hidden_size": 32,
    "patch_size": 4, "num_position_embeddings": 16,
}  # fmt: skip
FULL, LINEAR, CONV = "full_attention", "linear_attention", "conv"

RECURRENT: dict[str, tuple[dict[str, Any], ...]] = {
    "mamba": (
        MAMBA,
        MAMBA | {"expand": 3, "time_step_rank": 5, "conv_kernel": 3, "use_bias": True},
        MAMBA | {"use_conv_bias": False, "tie_word_embeddings": False},
    ),
    "falcon_mamba": (MAMBA, MAMBA | {"use_bias": True, "tie_word_embeddings": False}),
    "mamba2": (
        MAMBA2,
        MAMBA2 | {"use_bias": True, "use_conv_bias": False, "n_groups": 1, "conv_kernel": 3},
        MAMBA2 | {"expand": 3, "num_heads": 12, "tie_word_embeddings": True},
    ),
    "jamba": (
        JAMBA,
        JAMBA | {"num_experts": 1, "mamba_proj_bias": True, "mamba_conv_bias": False, "mamba_expand": 3},
        JAMBA | {"expert_layer_period": 3, "expert_layer_offset": 2, "mamba_dt_rank": 5, "tie_word_embeddings": True},
    ),
    "bamba": (
        BAMBA,
        BAMBA | {"attention_bias": True, "mlp_bias": True, "mamba_proj_bias": True, "mamba_d_head": 8},
    ),
    "falcon_h1": (
        FALCON,
        FALCON
        | {"attention_bias": True, "mlp_bias": True, "mamba_proj_bias": True, "projectors_bias": True}
        | {"mamba_rms_norm": True, "tie_word_embeddings": True, "num_key_value_heads": None},
        FALCON
        | {"mamba_rms_norm": True, "mamba_norm_before_gate": False, "mamba_conv_bias": False}
        | {"mamba_d_ssm": None, "mamba_d_head": 8, "head_dim": 12, "num_attention_heads": 3, "num_key_value_heads": 1},
    ),
    "granitemoehybrid": (
        GRANITE | {"layer_types": [LINEAR, FULL, LINEAR]},
        GRANITE | {"num_local_experts": 0, "layer_types": [FULL, LINEAR, LINEAR], "position_embedding_type": "rope"},
        GRANITE
        | {"layer_types": [LINEAR, LINEAR, FULL], "attention_bias": True, "mamba_conv_bias": False}
        | {"tie_word_embeddings": True, "num_key_value_heads": None},
    ),
    "nemotron_h": (
        NEMOTRON,
        NEMOTRON | {"moe_latent_size": 20, "use_bias": True, "use_conv_bias": False},
        NEMOTRON | {"hybrid_override_pattern": "M-M*-", "mlp_bias": True, "conv_kernel": 3},
    ),
    "lfm3": (
        LFM2 | LFM3,
        LFM2
        | LFM3
        | {"use_sandwich_norm": False, "conv_bias": True, "conv_L_cache": 3, "attention_bias": True}
        | {"layer_types": [CONV, FULL, "sliding_attention"], "num_hidden_layers": 3},
        LFM2 | LFM3 | {"use_attention_gate": False, "tie_word_embeddings": False},
    ),
    "lfm2": (
        LFM2 | {"full_attn_idxs": [1], "block_ff_dim": 100, "block_multiple_of": 16},
        LFM2
        | {"block_auto_adjust_ff_dim": False, "conv_bias": True, "conv_L_cache": 4, "tie_word_embeddings": False}
        | {"layer_types": [CONV, FULL, CONV]},
        LFM2
        | {"block_ffn_dim_multiplier": 1.3, "block_multiple_of": 8, "full_attn_idxs": [0, 2]}
        | {"tie_embedding": False},
        LFM2 | {"block_multiple_of": 8},
    ),
    "lfm2_moe": (
        LFM2 | ROUTED | {"layer_types": [CONV, FULL, CONV], "num_dense_layers": 1},
        LFM2
        | ROUTED
        | {"layer_types": [FULL, CONV, CONV], "num_dense_layers": 0, "use_expert_bias": False}
        | {"norm_topk_prob": False, "conv_bias": True, "tie_word_embeddings": False},
        LFM2 | ROUTED | {"layer_types": [CONV, FULL, FULL], "tie_embedding": False},
    ),
    "olmo_hybrid": (
        OLMO,
        OLMO
        | {"layer_types": [FULL, LINEAR, LINEAR, FULL], "attention_bias": True, "linear_allow_neg_eigval": False}
        | {"rope_parameters": {"rope_type": "default", "rope_theta": None}, "tie_word_embeddings": True},
        OLMO | DELTA | {"num_hidden_layers": 3, "num_key_value_heads": None, "linear_conv_kernel_dim": 3},
        OLMO | {"linear_num_key_heads": 2, "linear_key_head_dim": 5, "rope_theta": None},
    ),
    "kimi_linear": (
        KIMI,
        {key: value for key, value in KIMI.items() if key != "linear_attn_config"}
        | {"linear_head_dim": 5, "linear_num_heads": 2, "layer_types": [FULL, LINEAR, LINEAR, FULL]}
        | {"mlp_layer_types": ["sparse", "dense", "sparse", "dense"], "q_lora_rank": 12},
        KIMI
        | {"num_expert_group": 4, "topk_group": 2, "num_shared_experts": 2, "first_k_dense_replace": 0}
        | {"linear_attn_config": {"full_attn_layers": [4], "kda_layers": [1, 2, 3], "num_heads": 2, "head_dim": 4}},
    ),
    "bailing_hybrid": (
        BAILING,
        BAILING
        | {"head_dim": 7, "kda_safe_gate": False, "layer_types": [FULL, LINEAR, LINEAR, FULL], "attention_bias": True}
        | {"mlp_layer_types": ["sparse", "dense", "sparse", "dense"]},
        BAILING
        | {
            "num_expert_group": 1,
            "topk_group": 1,
            "num_shared_experts": 2,
            "first_k_dense_replace": 0,
            "layer_group_size": 3,
        },
    ),
    "rwkv": (RWKV, RWKV | {"attention_hidden_size": 16, "intermediate_size": 40, "tie_word_embeddings": True}),
    "recurrent_gemma": (
        GRIFFIN,
        GRIFFIN
        | {"lru_width": 40, "conv1d_width": 3, "attention_bias": True, "head_dim": 12, "num_key_value_heads": None}
        | {"intermediate_size": 51, "hidden_activation": "silu", "tie_word_embeddings": False},
        GRIFFIN | {"block_types": ["attention", "recurrent"], "conv1d_width": 1, "num_hidden_layers": 4},
    ),
    "zamba2": (
        ZAMBA,
        ZAMBA
        | {"num_mem_blocks": 1, "use_shared_attention_adapter": True, "use_mem_rope": True, "intermediate_size": None},
        ZAMBA
        | {"num_mem_blocks": 3, "add_bias_linear": True, "mamba_expand": 3, "n_mamba_heads": 12, "hidden_act": "silu"},
    ),
    "qwen3_next": (
        QWEN | EXPERTS,
        QWEN | EXPERTS | {"layer_types": [FULL, LINEAR, LINEAR, FULL], "mlp_only_layers": [1], "attention_bias": True},
        QWEN | EXPERTS | {"full_attention_interval": 2, "decoder_sparse_step": 2, "tie_word_embeddings": True},
    ),
    "qwen3_5_text": (QWEN, QWEN | {"attention_bias": True, "layer_types": [LINEAR, FULL, LINEAR, FULL]}),
    "qwen3_5_moe_text": (QWEN | EXPERTS,),
    "qwen3_5": (
        {"text_config": QWEN, "vision_config": TOWER},
        {"text_config": QWEN, "vision_config": TOWER, "tie_word_embeddings": True},
    ),
    "qwen4_exp_text": (
        QWEN4,
        QWEN4 | NGRAMS,
        QWEN4
        | {"attention_bias": True, "norm_topk_prob": False, "output_gate_type": "sigmoid"}
        | {"layer_types": [LINEAR, "indexed_attention", FULL, LINEAR], "tie_word_embeddings": True},
        QWEN4
        | NGRAMS
        | {"ngram_size": 2, "ple_conv_kernel_size": 2, "full_attention_interval": 2, "seed": 3}
        | {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.25}}
        | {"indexer_head_dim": 6, "ple_embed_dim": None, "eos_token_id": [2, 1]},
    ),
    "qwen4_exp": ({"text_config": QWEN4 | NGRAMS, "vision_config": TOWER},),
    "qwen3_5_moe": ({"text_config": QWEN | EXPERTS, "vision_config": TOWER},),
}
