"""Small configs of models of pictures and sound: (config, classes of transformers, changes for the first class)."""

from __future__ import annotations

from typing import Any

VIT = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "image_size": 30,
    "patch_size": 8,
    "num_channels": 3,
}
SIDES = {"image_size": [16, 24], "patch_size": [8, 6]}
SWIN = {
    "embed_dim": 12,
    "depths": [2, 3, 1],
    "num_heads": [2, 3, 6],
    "image_size": 32,
    "patch_size": 2,
    "window_size": 4,
    "num_channels": 3,
}
HIERA = {
    "hidden_size": 12,
    "image_size": [64, 64],
    "num_channels": 3,
    "blocks_per_stage": [1, 2, 3, 1],
    "embed_dim_per_stage": [12, 24, 36, 48],
    "num_attention_heads_per_stage": [1, 2, 3, 4],
    "window_size_per_stage": [4, 2, 6, 3],
    "global_attention_blocks": [4],
    "window_positional_embedding_background_size": [3, 3],
}
NESTED = HIERA | {"model_type": "sam2_hiera_det_model"}
MAPS = {"backbone_config": NESTED, "backbone_channel_list": [48, 36, 24, 12], "fpn_hidden_size": 16}
SAM2 = {
    "vision_config": MAPS
    | {
        "model_type": "sam2_vision_model",
        "backbone_feature_sizes": [[16, 16], [8, 8], [4, 4]],
        "num_feature_levels": 3,
    },
    "prompt_encoder_config": {"hidden_size": 16, "image_size": 64, "patch_size": 16},
    "mask_decoder_config": {"hidden_size": 16, "mlp_dim": 20, "num_attention_heads": 2, "iou_head_hidden_dim": 12},
}
SAM_VIT = {
    "hidden_size": 24,
    "output_channels": 16,
    "num_hidden_layers": 4,
    "num_attention_heads": 3,
    "image_size": 56,
    "patch_size": 8,
    "window_size": 3,
    "global_attn_indexes": [1, 3],
    "num_pos_feats": 8,
    "mlp_dim": 40,
}
SAM = {
    "vision_config": SAM_VIT,
    "prompt_encoder_config": {"hidden_size": 16, "image_size": 56, "patch_size": 8},
    "mask_decoder_config": SAM2["mask_decoder_config"],
}
SPEECH = {
    "vocab_size": 17,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "conv_dim": [12, 16, 20],
    "conv_kernel": [10, 3, 2],
    "conv_stride": [5, 2, 2],
    "num_conv_pos_embeddings": 8,
    "num_conv_pos_embedding_groups": 4,
    "num_codevectors_per_group": 6,
    "num_codevector_groups": 2,
    "codevector_dim": 14,
    "proj_codevector_dim": 10,
    "classifier_proj_size": 9,
}
W2V_BERT = {
    "vocab_size": 17,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "feature_projection_input_dim": 12,
    "left_max_position_embeddings": 5,
    "right_max_position_embeddings": 2,
    "conv_depthwise_kernel_size": 5,
    "classifier_proj_size": 9,
}
ADAPTED = {"add_adapter": True, "use_intermediate_ffn_before_adapter": True}
PARAKEET = {
    "vocab_size": 17,
    "encoder_config": {
        "model_type": "parakeet_encoder",
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 48,
        "num_mel_bins": 16,
        "subsampling_conv_channels": 6,
        "conv_kernel_size": 5,
    },
}
HEARD = {
    "hidden_size": 32,
    "input_feat_size": 16,
    "conf_num_attention_heads": 4,
    "conf_num_hidden_layers": 2,
    "conf_attention_chunk_size": 3,
    "conf_attention_context_left": 4,
    "conf_attention_context_right": 1,
    "conf_reduction_factor": 2,
    "sscp_conv_channel_size": [6, 3],
}
TILED = {
    "model_type": "mllama_vision_model",
    "hidden_size": 24,
    "num_hidden_layers": 4,
    "num_global_layers": 2,
    "attention_heads": 3,
    "intermediate_size": 40,
    "image_size": 34,
    "patch_size": 8,
    "max_num_tiles": 4,
    "intermediate_layers_indices": [2, 0],
    "vision_output_dim": 72,
}
CROSSED = {
    "model_type": "mllama_text_model",
    "vocab_size": 97,
    "hidden_size": 32,
    "num_hidden_layers": 5,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 48,
    "cross_attention_layers": [1, 3],
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 1,
}
MLLAMA = {"text_config": CROSSED, "vision_config": TILED}
RESNET = {"model_type": "resnet", "embedding_size": 8, "hidden_sizes": [16, 24, 32], "depths": [2, 1, 3]}

CLIP_TEXT = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 16,
    "eos_token_id": 1,
}
SIGLIP_TEXT = {
    "vocab_size": 97,
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "max_position_embeddings": 32,
    "projection_size": 32,
    "eos_token_id": 1,
}
NAFLEX = {key: value for key, value in VIT.items() if key != "image_size"} | {"num_patches": 9}

TROCR = {
    "encoder": VIT | {"model_type": "vit", "qkv_bias": False},
    "decoder": {
        "model_type": "trocr",
        "vocab_size": 97,
        "d_model": 24,
        "decoder_layers": 3,
        "decoder_attention_heads": 3,
        "decoder_ffn_dim": 40,
        "max_position_embeddings": 32,
        "cross_attention_hidden_size": 32,
    },
}
FIXED = {"use_learned_position_embeddings": False, "scale_embedding": True, "layernorm_embedding": False}
MEDIA: dict[str, tuple[dict[str, Any], tuple[str, ...], tuple[dict[str, Any], ...]]] = {
    "vit": (
        VIT,
        ("ViTForImageClassification", "ViTModel"),
        (SIDES, {"qkv_bias": False, "num_labels": 5, "hidden_act": "gelu_new"}),
    ),
    "vit_msn": (VIT, ("ViTMSNModel", "ViTMSNForImageClassification"), (SIDES, {"qkv_bias": False})),
    "ijepa": (VIT, ("IJepaModel", "IJepaForImageClassification"), (SIDES, {"qkv_bias": False, "num_labels": 5})),
    "vit_mae": (
        VIT
        | {
            "image_size": 32,
            "decoder_hidden_size": 24,
            "decoder_num_hidden_layers": 3,
            "decoder_num_attention_heads": 3,
            "decoder_intermediate_size": 40,
        },
        ("ViTMAEForPreTraining", "ViTMAEModel"),
        (
            {"mask_ratio": 0.35, "qkv_bias": False, "num_channels": 1, "hidden_act": "relu"},
            {"image_size": 24, "mask_ratio": 0.0, "layer_norm_eps": 0.03},
        ),
    ),
    "dinov2_with_registers": (
        {key: VIT[key] for key in VIT if key != "intermediate_size"} | {"mlp_ratio": 3},
        ("Dinov2WithRegistersModel",),
        ({"use_swiglu_ffn": True, "qkv_bias": False, "num_register_tokens": 2},),
    ),
    "dinov3_vit": (
        VIT | {"image_size": 32, "num_register_tokens": 3},
        ("DINOv3ViTModel",),
        (
            SIDES | {"num_register_tokens": 0, "key_bias": True, "proj_bias": False},
            {"use_gated_mlp": True, "query_bias": False, "value_bias": False, "mlp_bias": False, "hidden_act": "silu"},
        ),
    ),
    "swin": (
        SWIN,
        ("SwinForImageClassification", "SwinModel"),
        (
            {
                "depths": [1, 3],
                "num_heads": [2, 3],
                "use_absolute_embeddings": True,
                "qkv_bias": False,
                "mlp_ratio": 2.5,
            },
            {"image_size": [35, 28], "window_size": 2, "hidden_act": "relu", "num_labels": 5, "layer_norm_eps": 0.03},
            {"image_size": 24, "patch_size": [2, 3], "depths": [2], "num_heads": [4], "num_channels": 1},
        ),
    ),
    "swinv2": (
        SWIN,
        ("Swinv2ForImageClassification", "Swinv2Model"),
        (
            {"depths": [1, 3], "num_heads": [2, 3], "qkv_bias": False},
            {"image_size": 35, "window_size": 5, "hidden_act": "relu", "num_labels": 5, "layer_norm_eps": 0.03},
        ),
    ),
    "sam2_hiera_det_model": (
        HIERA,
        ("Sam2HieraDetModel",),
        (
            {"image_size": [96, 64], "num_query_pool_stages": 2, "patch_kernel_size": 5, "patch_padding": 2}
            | {"global_attention_blocks": [2, 6], "window_positional_embedding_background_size": [2, 5]},
            {"embed_dim_per_stage": [12, 24, 36, 36], "num_query_pool_stages": 2, "mlp_ratio": 2.5, "num_channels": 1}
            | {"num_attention_heads_per_stage": [1, 2, 3, 2], "hidden_act": "relu", "layer_norm_eps": 0.03},
        ),
    ),
    "sam2_vision_model": (
        MAPS,
        ("Sam2VisionModel",),
        (
            {"fpn_top_down_levels": [0, 1, 2, 3], "num_feature_levels": 1},
            {"fpn_top_down_levels": [], "num_feature_levels": 4, "backbone_config": NESTED | {"image_size": [128, 64]}},
        ),
    ),
    "sam2": (
        SAM2,
        ("Sam2Model",),
        (
            {
                "vision_config": SAM2["vision_config"] | {"fpn_top_down_levels": [0, 1, 2]},
                "mask_decoder_config": {"hidden_size": 16, "num_attention_heads": 4, "attention_downsample_rate": 1}
                | {"num_hidden_layers": 3, "num_multimask_outputs": 1, "iou_head_depth": 4, "mlp_dim": 24},
            },
            {
                "prompt_encoder_config": SAM2["prompt_encoder_config"]
                | {"num_point_embeddings": 6, "mask_input_channels": 8, "layer_norm_eps": 0.03, "hidden_act": "relu"},
                "mask_decoder_config": SAM2["mask_decoder_config"] | {"num_hidden_layers": 1, "iou_head_depth": 1},
            },
        ),
    ),
    "sam": (
        SAM,
        ("SamModel",),
        (
            {
                "vision_config": SAM_VIT | {"qkv_bias": False, "global_attn_indexes": [0, 1, 2, 3], "mlp_dim": None},
                "mask_decoder_config": {"hidden_size": 16, "num_attention_heads": 4}
                | {"num_hidden_layers": 3, "num_multimask_outputs": 1, "iou_head_depth": 4, "mlp_dim": 24},
            },
            {
                "vision_config": SAM_VIT | {"num_attention_heads": 1, "window_size": 7, "use_abs_pos": False},
                "prompt_encoder_config": SAM["prompt_encoder_config"]
                | {"num_point_embeddings": 6, "mask_input_channels": 8, "layer_norm_eps": 0.03, "hidden_act": "relu"},
                "mask_decoder_config": SAM["mask_decoder_config"] | {"hidden_act": "silu", "layer_norm_eps": 0.03},
            },
        ),
    ),
    "sam_vision_model": (
        SAM_VIT,
        ("SamVisionModel",),
        (
            {"window_size": 0, "mlp_dim": None, "mlp_ratio": 2.5, "hidden_act": "relu", "num_channels": 1},
            {"global_attn_indexes": [], "image_size": 60, "patch_size": 8, "layer_norm_eps": 0.03},
            # Windows that are larger than the picture are filled up.
            {"window_size": 9},
        ),
    ),
    "hubert": (
        {key: value for key, value in SPEECH.items() if "codevector" not in key},
        ("HubertForCTC", "HubertForSequenceClassification", "HubertModel"),
        ({"feat_extract_norm": "layer", "conv_bias": True}, {"do_stable_layer_norm": True, "mask_time_prob": 0.0}),
    ),
    "unispeech": (
        {key: value for key, value in SPEECH.items() if "codevector" not in key},
        ("UniSpeechForCTC", "UniSpeechForSequenceClassification", "UniSpeechModel"),
        ({"feat_extract_norm": "layer", "conv_bias": True}, {"do_stable_layer_norm": True, "mask_time_prob": 0.0}),
    ),
    "unispeech-sat": (
        {key: value for key, value in SPEECH.items() if "codevector" not in key},
        (
            "UniSpeechSatForCTC",
            "UniSpeechSatForSequenceClassification",
            "UniSpeechSatForAudioFrameClassification",
            "UniSpeechSatModel",
        ),
        ({"feat_extract_norm": "layer", "conv_bias": True}, {"do_stable_layer_norm": True, "mask_time_prob": 0.0}),
    ),
    "wavlm": (
        {key: value for key, value in SPEECH.items() if "codevector" not in key}
        | {"num_buckets": 12, "max_bucket_distance": 20},
        (
            "WavLMForCTC",
            "WavLMForSequenceClassification",
            "WavLMForAudioFrameClassification",
            "WavLMModel",
        ),
        (
            {"feat_extract_norm": "layer", "conv_bias": True, "num_hidden_layers": 3},
            {"do_stable_layer_norm": True, "mask_time_prob": 0.0, "num_buckets": 32, "num_attention_heads": 2},
        ),
    ),
    "wav2vec2-bert": (
        W2V_BERT,
        (
            "Wav2Vec2BertForCTC",
            "Wav2Vec2BertForSequenceClassification",
            "Wav2Vec2BertForAudioFrameClassification",
            "Wav2Vec2BertModel",
        ),
        (
            {"position_embeddings_type": "relative", "mask_time_prob": 0.0, "hidden_act": "gelu"},
            {"position_embeddings_type": "rotary", "conv_depthwise_kernel_size": 3},
            {"position_embeddings_type": None, "num_hidden_layers": 3},
            {"left_max_position_embeddings": 30, "right_max_position_embeddings": 1},
            ADAPTED,
            ADAPTED | {"num_adapter_layers": 2, "adapter_act": "gelu", "adapter_stride": 3},
        ),
    ),
    "parakeet_ctc": (
        PARAKEET,
        ("ParakeetForCTC",),
        (
            {"encoder_config": PARAKEET["encoder_config"] | {"attention_bias": False, "subsampling_factor": 4}},
            {
                "encoder_config": PARAKEET["encoder_config"]
                | {"convolution_bias": False, "head_dim": 6, "hidden_act": "gelu", "scale_input": False}
                | {"subsampling_factor": 2, "subsampling_conv_kernel_size": 5}
            },
        ),
    ),
    "parakeet_encoder": (
        {key: value for key, value in PARAKEET["encoder_config"].items() if key != "model_type"},
        ("ParakeetEncoder",),
        ({"conv_kernel_size": 9, "subsampling_conv_channels": 3, "hidden_act": "relu"},),
    ),
    "gemma3n_audio": (
        HEARD,
        ("Gemma3nAudioEncoder",),
        (
            {"conf_num_attention_heads": 1, "conf_attention_context_right": 0, "conf_conv_kernel_size": 3},
            {
                "sscp_conv_channel_size": [1, 1],
                "sscp_conv_kernel_size": [[5, 3], [2, 2]],
                "sscp_conv_stride_size": [[1, 2], [3, 1]],
                "conf_reduction_factor": 1,
                "conf_conv_kernel_size": 1,
            },
            {"conf_attention_chunk_size": 40, "conf_attention_context_left": 1, "conf_attention_context_right": 3},
        ),
    ),
    "clip_vision_model": (
        VIT | {"projection_dim": 20},
        ("CLIPVisionModel", "CLIPVisionModelWithProjection"),
        ({"num_channels": 1, "hidden_act": "gelu"},),
    ),
    "clip_text_model": (
        CLIP_TEXT | {"projection_dim": 20},
        ("CLIPTextModel", "CLIPTextModelWithProjection"),
        ({"hidden_act": "gelu"},),
    ),
    "deit": (
        VIT,
        ("DeiTForImageClassificationWithTeacher", "DeiTForImageClassification", "DeiTModel"),
        ({"num_labels": 5, "qkv_bias": False}, SIDES),
    ),
    "dinov2": (
        {key: VIT[key] for key in VIT if key != "intermediate_size"} | {"mlp_ratio": 3},
        ("Dinov2Model",),
        (
            {"use_swiglu_ffn": True, "qkv_bias": False, "use_mask_token": False},
            {"hidden_act": "relu", "image_size": 40},
        ),
    ),
    "patchtst": (
        {"d_model": 32, "num_attention_heads": 4, "num_hidden_layers": 2, "ffn_dim": 48, "num_input_channels": 3}
        | {"context_length": 30, "patch_length": 7, "patch_stride": 4, "prediction_length": 5},
        ("PatchTSTForPrediction", "PatchTSTForPretraining", "PatchTSTModel"),
        (
            {"norm_type": "layernorm", "pre_norm": False, "use_cls_token": True, "bias": False},
            {"pooling_type": None, "positional_encoding_type": "random", "activation_function": "relu"},
            {"pooling_type": "max", "num_input_channels": 1, "norm_eps": 0.03},
        ),
    ),
    "audio-spectrogram-transformer": (
        {key: VIT[key] for key in VIT if key not in ("image_size", "num_channels")}
        | {"num_mel_bins": 24, "max_length": 40, "frequency_stride": 5, "time_stride": 7},
        ("ASTForAudioClassification", "ASTModel"),
        ({"qkv_bias": False, "num_labels": 7},),
    ),
    "clip": (
        {
            "projection_dim": 20,
            "text_config": CLIP_TEXT,
            "vision_config": VIT,
        },
        ("CLIPModel",),
        ({"vision_config": VIT | {"num_channels": 1}},),
    ),
    "siglip": (
        {"text_config": SIGLIP_TEXT, "vision_config": VIT},
        ("SiglipModel",),
        ({"vision_config": VIT | {"num_channels": 1, "hidden_act": "relu", "layer_norm_eps": 0.03}},),
    ),
    "siglip_text_model": (SIGLIP_TEXT, ("SiglipTextModel",), ({"projection_size": None, "hidden_act": "relu"},)),
    "siglip_vision_model": (VIT, ("SiglipVisionModel",), ({"vision_use_head": False, "num_channels": 1},)),
    "siglip2": (
        {"text_config": SIGLIP_TEXT, "vision_config": NAFLEX},
        ("Siglip2Model",),
        ({"vision_config": NAFLEX | {"num_channels": 1, "hidden_act": "relu"}},),
    ),
    "siglip2_text_model": (SIGLIP_TEXT, ("Siglip2TextModel",), ()),
    "siglip2_vision_model": (NAFLEX, ("Siglip2VisionModel",), ({"vision_use_head": False},)),
    "pixtral": (VIT, ("PixtralVisionModel",), ({"num_channels": 1, "hidden_act": "silu", "rope_theta": 50.0},)),
    "vision-encoder-decoder": (
        TROCR,
        ("VisionEncoderDecoderModel",),
        (
            {"encoder": VIT | {"model_type": "deit", "hidden_act": "relu"}},
            {"decoder": TROCR["decoder"] | FIXED | {"tie_word_embeddings": False, "activation_function": "relu"}},
            {
                "decoder": TROCR["decoder"]
                | {"d_model": 32, "cross_attention_hidden_size": None, "decoder_attention_heads": 4}
            },
        ),
    ),
    "mllama": (
        MLLAMA,
        ("MllamaForConditionalGeneration", "MllamaModel"),
        (
            # As many layers in the first stage as there: renaming counts on from them.
            {"vision_config": TILED | {"image_size": 24, "patch_size": 6, "num_channels": 1, "hidden_act": "relu"}},
            {
                "vision_config": TILED
                | {
                    "max_num_tiles": 3,
                    "supported_aspect_ratios": [[1, 1], [3, 1], [1, 3]],
                    "intermediate_layers_indices": [1],
                    "vision_output_dim": 48,
                    "num_global_layers": 1,
                }
            },
            {"text_config": CROSSED | {"num_key_value_heads": 4, "hidden_act": "gelu"}},
        ),
    ),
    "mllama_vision_model": (
        {key: value for key, value in TILED.items() if key != "model_type"},
        ("MllamaVisionModel",),
        (
            {"image_size": 24, "patch_size": 6, "num_channels": 1, "hidden_act": "relu", "norm_eps": 0.03},
            {"max_num_tiles": 3, "supported_aspect_ratios": [[1, 1], [3, 1], [1, 3]], "num_global_layers": 1}
            | {"intermediate_layers_indices": [1], "vision_output_dim": 48},
        ),
    ),
    "whisper": (
        {
            "vocab_size": 97,
            "d_model": 32,
            "encoder_layers": 3,
            "decoder_layers": 2,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 8,
            "encoder_ffn_dim": 48,
            "decoder_ffn_dim": 40,
            "num_mel_bins": 12,
            "max_source_positions": 25,
            "max_target_positions": 32,
        },
        ("WhisperForConditionalGeneration",),
        ({"activation_function": "relu", "scale_embedding": True},),
    ),
    "speech_to_text": (
        {
            "vocab_size": 97,
            "d_model": 32,
            "encoder_layers": 3,
            "decoder_layers": 2,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 8,
            "encoder_ffn_dim": 48,
            "decoder_ffn_dim": 40,
            "conv_channels": 24,
            "input_feat_per_channel": 12,
            "max_target_positions": 32,
        },
        ("Speech2TextForConditionalGeneration",),
        (
            {"num_conv_layers": 3, "conv_kernel_sizes": [5, 4, 3], "input_channels": 2},
            {"num_conv_layers": 1, "conv_kernel_sizes": [3], "tie_word_embeddings": False},
        ),
    ),
    "wav2vec2": (
        SPEECH,
        (
            "Wav2Vec2ForPreTraining",
            "Wav2Vec2ForCTC",
            "Wav2Vec2ForSequenceClassification",
            "Wav2Vec2ForAudioFrameClassification",
            "Wav2Vec2Model",
        ),
        (
            {"feat_extract_norm": "layer", "conv_bias": True},
            {"mask_time_prob": 0.0, "num_conv_pos_embeddings": 7},
        ),
    ),
    "wav2vec2-conformer": (
        SPEECH | {"conv_depthwise_kernel_size": 5},
        ("Wav2Vec2ConformerForPreTraining", "Wav2Vec2ConformerForCTC", "Wav2Vec2ConformerModel"),
        ({"position_embeddings_type": "rotary"}, {"position_embeddings_type": None, "feat_extract_norm": "layer"}),
    ),
    "detr": (
        {
            "d_model": 32,
            "encoder_layers": 2,
            "decoder_layers": 3,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 8,
            "encoder_ffn_dim": 48,
            "decoder_ffn_dim": 40,
            "num_queries": 9,
            "use_timm_backbone": False,
            "backbone_config": RESNET | {"out_features": ["stage3"]},
        },
        ("DetrForObjectDetection", "DetrModel"),
        (
            {"position_embedding_type": "learned", "num_labels": 4},
            {"backbone_config": RESNET | {"out_features": ["stage3"], "layer_type": "basic"}},
            {
                "backbone_config": RESNET
                | {
                    "out_features": ["stage1", "stage3"],
                    "downsample_in_bottleneck": True,
                    "downsample_in_first_stage": True,
                }
            },
        ),
    ),
}
STABLE = {"do_stable_layer_norm": True, "feat_extract_norm": "layer"}


def media_cases() -> list[tuple[str, str, dict[str, Any]]]:
    """(model_type, class of transformers, config) of every class and every variant."""
    cases = []
    for model_type, (config, classes, variants) in MEDIA.items():
        cases += [(model_type, name, config) for name in classes]
        cases += [(model_type, classes[0], config | extra) for extra in variants]
    return [*cases, ("wav2vec2", "Wav2Vec2ForCTC", SPEECH | STABLE)]
