"""Small configs of the families that see, and of the language models inside them, a variant for each further rule."""

from __future__ import annotations

from typing import Any

from tests.architectures.cases_recent import LARGE4_TEXT

TEXT = {
    "vocab_size": 97,
    "hidden_size": 64,
    "intermediate_size": 80,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 12,
    "max_position_embeddings": 64,
}
SLIDING, FULL, CHUNKED = "sliding_attention", "full_attention", "chunked_attention"
VIT = {"hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4, "patch_size": 4}

SIGLIP = VIT | {"model_type": "siglip_vision_model", "image_size": 32, "vision_use_head": False}
GEMMA3_TEXT = TEXT | {"sliding_window": 6, "num_hidden_layers": 7}
GEMMA3 = {"text_config": GEMMA3_TEXT, "vision_config": SIGLIP, "mm_tokens_per_image": 16}

GEMMA4_TEXT = TEXT | {
    "num_hidden_layers": 6,
    "sliding_window": 6,
    "global_head_dim": 16,
    "vocab_size_per_layer_input": 97,
    "hidden_size_per_layer_input": 8,
}
GEMMA4_EXPERTS = {
    "enable_moe_block": True,
    "num_experts": 4,
    "top_k_experts": 2,
    "moe_intermediate_size": 24,
    "hidden_size_per_layer_input": 0,
}
GEMMA4_VARIANTS: tuple[dict[str, Any], ...] = (
    GEMMA4_EXPERTS | {"attention_k_eq_v": True, "num_global_key_value_heads": 1},
    {"num_global_key_value_heads": 1, "attention_bias": True, "tie_word_embeddings": False},
    {"num_kv_shared_layers": 2, "use_double_wide_mlp": True, "layer_types": [SLIDING, FULL] * 3},
    {"num_kv_shared_layers": 3, "layer_types": [SLIDING, FULL, *[SLIDING] * 4], "attention_k_eq_v": True},
    {"per_layer_config": {"05": {"head_dim": 16, "num_key_value_heads": 1}}},
    {"per_layer_config": {str(i): {"head_dim": 16} for i in range(5)}, "global_head_dim": 24},
)
GEMMA4_VISION = VIT | {
    "num_key_value_heads": 2,
    "head_dim": 8,
    "position_embedding_size": 20,
    "pooling_kernel_size": 2,
    "rope_parameters": {"rope_type": "axial", "rope_theta": 100.0},
}
GEMMA4 = {"text_config": GEMMA4_TEXT, "vision_config": GEMMA4_VISION, "vision_soft_tokens_per_image": 6}

LLAMA4_TEXT = TEXT | {
    "intermediate_size_mlp": 96,
    "num_local_experts": 4,
    "num_experts_per_tok": 1,
    "attention_chunk_size": 6,
    "no_rope_layer_interval": 2,
    "interleave_moe_layer_step": 2,
}
LLAMA4_VISION = VIT | {
    "image_size": 32,
    "intermediate_size": 128,
    "projector_input_dim": 48,
    "projector_output_dim": 48,
    "vision_output_dim": 48,
}
LLAMA4_VARIANTS: tuple[dict[str, Any], ...] = (
    {"attention_bias": True, "tie_word_embeddings": True, "interleave_moe_layer_step": 1, "num_experts_per_tok": 2},
    {"no_rope_layers": [1, 1, 0, 1], "layer_types": [CHUNKED, FULL, FULL, CHUNKED], "moe_layers": [0, 3]},
    {"no_rope_layers": [], "moe_layers": [], "use_qk_norm": False},
)

QWEN_VISION = {
    "depth": 3,
    "hidden_size": 32,
    "intermediate_size": 40,
    "num_heads": 4,
    "patch_size": 4,
    "num_position_embeddings": 36,
    "out_hidden_size": 64,
    "deepstack_visual_indexes": [0, 2],
}
QWEN2_VL_TEXT = {k: v for k, v in TEXT.items() if k != "head_dim"}
QWEN2_VL_VISION = {"depth": 2, "embed_dim": 32, "hidden_size": 64, "num_heads": 4, "patch_size": 4}
QWEN2_VL = {"text_config": QWEN2_VL_TEXT, "vision_config": QWEN2_VL_VISION}
QWEN2_5_VL_VISION = {
    "depth": 3,
    "hidden_size": 32,
    "intermediate_size": 40,
    "num_heads": 4,
    "patch_size": 4,
    "out_hidden_size": 64,
    "window_size": 17,
    "fullatt_block_indexes": [1, 7],
}
QWEN2_5_VL = {"text_config": QWEN2_VL_TEXT, "vision_config": QWEN2_5_VL_VISION}
MROPE = {"type": "mrope", "mrope_section": [2, 1, 1]}
SECTIONS = MROPE | {"type": "default"}
QWEN2_5_OMNI = {
    "text_config": QWEN2_VL_TEXT | {"rope_scaling": SECTIONS},
    "vision_config": QWEN2_5_VL_VISION,
    "audio_config": {
        "d_model": 32,
        "encoder_layers": 2,
        "encoder_attention_heads": 4,
        "encoder_ffn_dim": 48,
        "num_mel_bins": 12,
        "max_source_positions": 10,
        "n_window": 6,
        "output_dim": 64,
    },
}
QWEN3_VL = {"text_config": TEXT, "vision_config": QWEN_VISION}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
QWEN3_VL_MOE = {"text_config": TEXT | EXPERTS, "vision_config": QWEN_VISION}
QWEN3_OMNI = QWEN3_VL_MOE | {
    "text_config": TEXT | EXPERTS | {"rope_scaling": {"type": "default", "mrope_section": [2, 2, 2]}},
    "audio_config": QWEN2_5_OMNI["audio_config"]
    | {"n_window": 50, "n_window_infer": 250, "downsample_hidden_size": 6, "max_source_positions": 13},
}
PIXTRAL = VIT | {"image_size": 24, "rope_theta": 50.0}
MISTRAL3 = {"text_config": TEXT | {"sliding_window": None}, "vision_config": PIXTRAL}
LARGE4 = {"text_config": LARGE4_TEXT | {"model_type": "mistral_large4_text"}, "vision_config": PIXTRAL}
MINISTRAL3 = MISTRAL3 | {"text_config": TEXT | {"model_type": "ministral3", "rms_norm_eps": 0.03}}


def inside(section: str, base: dict[str, Any], **change: Any) -> dict[str, Any]:
    """`base` with keys of one of its sections changed."""
    return base | {section: base[section] | change}


PALIGEMMA = {
    "text_config": TEXT | {"model_type": "gemma"},
    "vision_config": SIGLIP,
    "projection_dim": 64,
}
IDEFICS3 = {"text_config": TEXT | {"model_type": "llama"}, "vision_config": VIT | {"image_size": 32}}
INTERNVL = {
    "text_config": {key: value for key, value in TEXT.items() if key != "head_dim"} | {"model_type": "qwen2"},
    "vision_config": VIT | {"image_size": 32},
}
LLAVA = {
    "text_config": {key: value for key, value in TEXT.items() if key != "head_dim"} | {"model_type": "llama"},
    "vision_config": VIT | {"model_type": "clip_vision_model", "image_size": 32, "num_hidden_layers": 3},
}
PINPOINTS = {"image_grid_pinpoints": [[32, 32], [32, 64]]}
COHERE2_VISION = {
    "text_config": TEXT | {"model_type": "cohere2", "sliding_window": 6},
    "vision_config": SIGLIP,
    "alignment_intermediate_size": 48,
}

LFM2_VL = {
    "text_config": {key: value for key, value in TEXT.items() if key not in ("head_dim", "intermediate_size")}
    | {"model_type": "lfm2", "block_ff_dim": 96, "block_multiple_of": 8}
    | {"layer_types": ["conv", "full_attention", "conv", "full_attention"]},
    "vision_config": VIT | {"model_type": "siglip2_vision_model", "num_patches": 64, "vision_use_head": False},
    "projector_hidden_size": 48,
}
GLM4V_VISION = {
    "depth": 3,
    "hidden_size": 32,
    "intermediate_size": 40,
    "num_heads": 4,
    "patch_size": 4,
    "image_size": 24,
    "out_hidden_size": 64,
    "rms_norm_eps": 0.03,
}
GLM4V = {
    "text_config": {key: value for key, value in TEXT.items() if key != "head_dim"}
    | {"rope_parameters": {"rope_type": "default", "mrope_section": [2, 1, 1], "rope_theta": 50.0}},
    "vision_config": GLM4V_VISION,
}
GLM4V_EXPERTS = TEXT | {
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 24,
    "rope_parameters": {"rope_type": "default", "mrope_section": [1, 1, 1], "partial_rotary_factor": 0.5},
}
GLM4V_MOE = {"text_config": GLM4V_EXPERTS, "vision_config": GLM4V_VISION}

STEP = {
    "text_config": TEXT
    | {"n_routed_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 14, "share_expert_dim": 20}
    | {"layer_types": [FULL, SLIDING, SLIDING, SLIDING], "sliding_window": 6, "num_sliding_attention_heads": 6},
    "vision_config": {"width": 32, "layers": 2, "heads": 4, "mlp_ratio": 1.3, "image_size": 40, "patch_size": 4},
}
GLM5_TEXT = {
    **{key: value for key, value in TEXT.items() if key != "head_dim"},
    "num_hidden_layers": 5,
    "num_key_value_heads": 8,
    "q_lora_rank": 12,
    "kv_lora_rank": 10,
    "qk_nope_head_dim": 6,
    "v_head_dim": 5,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 14,
    "index_n_heads": 3,
    "index_head_dim": 6,
    "index_topk": 4,
    "index_kpool": 2,
    "linear_head_dim": 5,
    "linear_num_heads": 2,
    "hc_mult": 3,
}
INDEXED, LINEAR = "indexed_attention", "linear_attention"
GLM5_VISION = GLM4V_VISION | {"projection_intermediate_size": 36}
GLM5 = {"text_config": GLM5_TEXT, "vision_config": GLM5_VISION}
ALONE: dict[str, tuple[dict[str, Any], ...]] = {"glm5_next_text": (GLM5_TEXT,)}
"""Language models of families that see, whose own classes have no head."""

SEEING: dict[str, tuple[dict[str, Any], ...]] = {
    "gemma3": (
        GEMMA3,
        GEMMA3 | {"mm_tokens_per_image": 4, "tie_word_embeddings": False},
        inside("vision_config", GEMMA3, num_channels=1, hidden_act="gelu"),
    ),
    "gemma4": (
        GEMMA4,
        inside("text_config", GEMMA4, **GEMMA4_EXPERTS),
        inside("vision_config", GEMMA4, pooling_kernel_size=3, use_clipped_linears=True, standardize=True),
    ),
    "gemma4_text": (GEMMA4_TEXT, *(GEMMA4_TEXT | variant for variant in GEMMA4_VARIANTS)),
    "llama4": (
        {"text_config": LLAMA4_TEXT, "vision_config": LLAMA4_VISION},
        inside("text_config", {"text_config": LLAMA4_TEXT, "vision_config": LLAMA4_VISION}, tie_word_embeddings=True),
    ),
    "mistral3": (
        MISTRAL3,
        inside("vision_config", MISTRAL3, num_channels=1, hidden_act="silu", num_attention_heads=8)
        | {"tie_word_embeddings": False, "multimodal_projector_bias": True, "spatial_merge_size": 3},
        inside("text_config", MINISTRAL3, tie_word_embeddings=True) | {"projector_hidden_act": "relu"},
    ),
    "mistral_large4": (
        LARGE4,
        inside("text_config", LARGE4, kv_source_layers=[0, 0, 0, 3, 0, 0], attention_bias=True, n_shared_experts=2)
        | {"tie_word_embeddings": True, "spatial_merge_size": 3},
        inside("text_config", LARGE4, indexer_types=["full", "shared"] * 3, no_rope_layers=[1, 0, 1, 0, 1, 1, 0])
        | {"multimodal_projector_bias": True, "projector_hidden_act": "relu"},
        inside(
            "text_config",
            LARGE4,
            no_rope_layer_interval=2,
            kv_source_layers=[0, 1, 0, 1, 4, 1],
            index_topk_pattern="FSFSSF",
            mlp_layer_types=["sparse", "dense"] * 3,
            n_group=4,
            topk_group=2,
        ),
    ),
    "llama4_text": (LLAMA4_TEXT, *(LLAMA4_TEXT | variant for variant in LLAMA4_VARIANTS)),
    "paligemma": (
        PALIGEMMA,
        inside("vision_config", PALIGEMMA, num_channels=1, hidden_act="gelu") | {"tie_word_embeddings": False},
        PALIGEMMA | {"text_config": TEXT | {"model_type": "gemma2", "sliding_window": 6}},
    ),
    **{
        name: (
            inside("vision_config", IDEFICS3, model_type=f"{name}_vision"),
            inside("vision_config", IDEFICS3, model_type=f"{name}_vision", num_channels=1, hidden_act="relu")
            | {"scale_factor": 4, "tie_word_embeddings": True},
        )
        for name in ("idefics3", "smolvlm")
    },
    "internvl": (
        INTERNVL,
        inside("vision_config", INTERNVL, use_qk_norm=True, attention_bias=True, norm_type="rms_norm")
        | {"tie_word_embeddings": False, "downsample_ratio": 0.25, "projector_hidden_act": "relu"},
        inside("vision_config", INTERNVL, use_mean_pooling=False, use_mask_token=True)
        | {"text_config": TEXT | {"model_type": "qwen3"}},
    ),
    "step3p7": (
        STEP,
        inside("vision_config", STEP, num_channels=1, hidden_act="gelu", image_size=20)
        | {"projector_bias": True, "tie_word_embeddings": True},
        inside("text_config", STEP, mlp_bias=True, swiglu_limits=[None, 0, 0, 0.5], tie_word_embeddings=True)
        | {"tie_word_embeddings": False},
    ),
    "cohere2_vision": (
        COHERE2_VISION,
        inside("vision_config", COHERE2_VISION, num_channels=1, hidden_act="gelu")
        | {"downsample_factor": 4, "tie_word_embeddings": False},
    ),
    "aya_vision": (
        COHERE2_VISION,
        {"text_config": TEXT | {"model_type": "cohere"}, "vision_config": SIGLIP, "vision_feature_layer": 1}
        | {"downsample_factor": 4, "tie_word_embeddings": False, "adapter_layer_norm_eps": 0.03},
    ),
    "llava": (
        LLAVA,
        inside("text_config", LLAVA, tie_word_embeddings=True)
        | {"vision_feature_layer": 1, "projector_hidden_act": "relu", "multimodal_projector_bias": False},
        LLAVA | {"vision_config": SIGLIP, "vision_feature_layer": -1, "vision_feature_select_strategy": "full"},
        {
            "text_config": TEXT | {"model_type": "mistral", "sliding_window": None},
            "vision_config": PIXTRAL | {"model_type": "pixtral"},
            "vision_feature_layer": -1,
            "vision_feature_select_strategy": "full",
            "tie_word_embeddings": True,
        },
    ),
    "llava_next": (
        LLAVA | PINPOINTS,
        inside("text_config", LLAVA, model_type="mistral", sliding_window=6)
        | {"vision_feature_layer": 1, "projector_hidden_act": "relu", "multimodal_projector_bias": False}
        | PINPOINTS
        | {"tie_word_embeddings": True},
        LLAVA | PINPOINTS | {"vision_config": SIGLIP, "vision_feature_select_strategy": "full"},
    ),
    "llava_onevision": (
        inside("text_config", LLAVA, model_type="qwen2") | PINPOINTS | {"vision_config": SIGLIP},
        inside("text_config", LLAVA, model_type="qwen2", tie_word_embeddings=True)
        | PINPOINTS
        | {"vision_feature_layer": -2, "vision_feature_select_strategy": "default"},
    ),
    "lfm2_vl": (
        LFM2_VL,
        inside("vision_config", LFM2_VL, num_channels=1, hidden_act="relu")
        | {"downsample_factor": 4, "tie_embedding": False, "projector_use_layernorm": False, "projector_bias": False}
        | {"projector_hidden_act": "relu"},
    ),
    "glm4v": (
        GLM4V,
        inside("vision_config", GLM4V, attention_bias=True, in_channels=1, temporal_patch_size=1, hidden_act="relu")
        | {"tie_word_embeddings": True},
        inside("text_config", GLM4V, tie_word_embeddings=True, num_key_value_heads=None),
    ),
    "glm4v_moe": (
        GLM4V_MOE,
        inside("text_config", GLM4V_MOE, attention_bias=False, first_k_dense_replace=2, n_shared_experts=2)
        | {"tie_word_embeddings": True},
    ),
    "glm46v": (
        inside("text_config", GLM4V, model_type="glm4v_text"),
        inside("text_config", GLM4V_MOE, model_type="glm4v_moe_text")
        | {"vision_config": GLM4V_VISION | {"model_type": "glm4v_moe_vision"}},
    ),
    "glm5_next": (
        GLM5,
        inside(
            "text_config",
            GLM5,
            layer_types=[INDEXED, LINEAR, "full_attention", INDEXED, LINEAR],
            indexer_types=["full", "full", "full", "shared", "shared"],
            mlp_layer_types=["sparse", "dense", "sparse", "dense", "sparse"],
            index_kpool=1,
            index_kpool_always_select_tail=False,
            attention_bias=True,
        )
        | {"tie_word_embeddings": True},
        inside("vision_config", GLM5, attention_bias=False, in_channels=1, temporal_patch_size=1)
        | {
            "text_config": GLM5_TEXT
            | {"linear_attn_config": {"num_heads": 3, "head_dim": 4, "short_conv_kernel_size": 3}}
            | {"n_group": 4, "topk_group": 2, "n_shared_experts": 2, "index_kpool": 4, "index_topk": 8, "hc_mult": 2}
            | {
                "index_topk_freq": 2,
                "index_skip_topk_offset": 1,
                "layer_types": [INDEXED, INDEXED, LINEAR, LINEAR, INDEXED, INDEXED],
            }
            | {"num_hidden_layers": 6, "norm_topk_prob": False, "linear_lower_bound": None}
        },
    ),
    "qwen2_vl": (
        inside("text_config", QWEN2_VL, rope_scaling=MROPE),
        QWEN2_VL_TEXT | {"vision_config": QWEN2_VL_VISION, "rope_scaling": MROPE, "tie_word_embeddings": True},
        inside("vision_config", QWEN2_VL, mlp_ratio=3, in_channels=1, temporal_patch_size=1, spatial_merge_size=1)
        | {"text_config": QWEN2_VL_TEXT | {"rope_parameters": MROPE, "num_key_value_heads": None}},
        inside(
            "text_config",
            QWEN2_VL,
            rope_scaling=MROPE,
            use_sliding_window=True,
            sliding_window=6,
            max_window_layers=1,
            tie_word_embeddings=True,
        ),
    ),
    "qwen2_5_vl": (
        inside("text_config", QWEN2_5_VL, rope_scaling=MROPE),
        inside("vision_config", QWEN2_5_VL, fullatt_block_indexes=[0, 1], window_size=40, hidden_act="gelu")
        | {"text_config": QWEN2_VL_TEXT | {"rope_parameters": MROPE}, "tie_word_embeddings": True},
        QWEN2_VL_TEXT
        | {"vision_config": QWEN2_5_VL_VISION | {"fullatt_block_indexes": [], "window_size": 8}, "rope_scaling": MROPE},
    ),
    "qwen2_5_omni_thinker": (
        QWEN2_5_OMNI,
        inside("audio_config", QWEN2_5_OMNI, n_window=2, activation_function="relu")
        | {"text_config": QWEN2_VL_TEXT | {"rope_parameters": SECTIONS}, "tie_word_embeddings": True},
        inside("text_config", QWEN2_5_OMNI, use_sliding_window=True, sliding_window=6, max_window_layers=1)
        | {"vision_config": QWEN2_5_VL_VISION | {"fullatt_block_indexes": [], "window_size": 8}},
    ),
    "qwen3_omni_moe_thinker": (
        QWEN3_OMNI,
        inside("audio_config", QWEN3_OMNI, n_window=52, n_window_infer=104, num_mel_bins=17, activation_function="relu")
        | {"tie_word_embeddings": True},
        inside("text_config", QWEN3_OMNI, attention_bias=True, decoder_sparse_step=2, mlp_only_layers=[1]),
    ),
    "qwen3_vl": (
        QWEN3_VL,
        inside("vision_config", QWEN3_VL, deepstack_visual_indexes=[], temporal_patch_size=1, in_channels=1),
        inside("text_config", QWEN3_VL, attention_bias=True) | {"tie_word_embeddings": True},
    ),
    "qwen3_vl_moe": (
        QWEN3_VL_MOE,
        inside("text_config", QWEN3_VL_MOE, decoder_sparse_step=2, mlp_only_layers=[1], head_dim=None),
    ),
}
"""By model_type: the base and its variants, without model_type."""

DEEPSEEK = {
    "model_type": "deepseek_v3",
    "vocab_size": 97,
    "hidden_size": 64,
    "intermediate_size": 80,
    "moe_intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "first_k_dense_replace": 1,
    "kv_lora_rank": 16,
    "q_lora_rank": 24,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 8,
    "v_head_dim": 8,
    "max_position_embeddings": 64,
}
KIMI_VISION = {k: v for k, v in VIT.items() if k != "patch_size"} | {
    "patch_size": 4,
    "pos_emb_height": 6,
    "pos_emb_width": 6,
    "merge_kernel_size": [2, 2],
}
KIMI = {"text_config": DEEPSEEK, "vision_config": KIMI_VISION, "projection_hidden_size": 32}
