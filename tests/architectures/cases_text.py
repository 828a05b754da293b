"""Small configs of text encoders, encoder-decoders and GPT-2's kin, and the classes that read each family."""

from __future__ import annotations

from typing import Any

from tests.architectures.cases_vision import SIGLIP

BERT = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "max_position_embeddings": 40,
}
DEBERTA = BERT | {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]}
MODERN = BERT | {"num_hidden_layers": 4, "local_attention": 6}
T5 = {"vocab_size": 97, "d_model": 32, "d_kv": 6, "d_ff": 48, "num_layers": 3, "num_heads": 4}
BART = {
    "vocab_size": 97,
    "d_model": 32,
    "encoder_layers": 3,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 8,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 40,
    "max_position_embeddings": 40,
}
HEARS = {
    "speech_encoder_layers": 3,
    "speech_encoder_attention_heads": 8,
    "speech_encoder_intermediate_size": 56,
    "feature_projection_input_dim": 12,
    "conv_depthwise_kernel_size": 5,
    "adaptor_kernel_size": 4,
    "adaptor_stride": 3,
}
"""The encoder of speech of SeamlessM4T."""
LED = {key: value for key, value in BART.items() if key != "max_position_embeddings"} | {
    "attention_window": 4,
    "max_encoder_position_embeddings": 60,
    "max_decoder_position_embeddings": 40,
}
GPT2 = {"vocab_size": 97, "n_layer": 3, "n_head": 4, "n_positions": 64}

GEMMA2 = BERT | {"num_key_value_heads": 2, "head_dim": 6, "sliding_window": 5}
GTE_CLASSES = ("ForMaskedLM", "Model", "ForSequenceClassification", "ForTokenClassification")

# model_type -> (config, classes of transformers that read it, further keys for the first of them)
TEXT: dict[str, tuple[dict[str, Any], tuple[str, ...], tuple[dict[str, Any], ...]]] = {
    "bert": (
        BERT,
        (
            "BertForMaskedLM",
            "BertForPreTraining",
            "BertLMHeadModel",
            "BertModel",
            "BertForNextSentencePrediction",
            "BertForSequenceClassification",
            "BertForTokenClassification",
            "BertForQuestionAnswering",
        ),
        ({"type_vocab_size": 3, "hidden_act": "relu"},),
    ),
    "roberta": (
        BERT,
        (
            "RobertaForMaskedLM",
            "RobertaForCausalLM",
            "RobertaModel",
            "RobertaForSequenceClassification",
            "RobertaForTokenClassification",
            "RobertaForQuestionAnswering",
        ),
        ({"type_vocab_size": 1},),
    ),
    "xlm-roberta": (
        BERT,
        ("XLMRobertaForMaskedLM", "XLMRobertaModel", "XLMRobertaForSequenceClassification"),
        ({"type_vocab_size": 1},),
    ),
    "xlm-roberta-xl": (
        BERT,
        ("XLMRobertaXLForMaskedLM", "XLMRobertaXLForCausalLM", "XLMRobertaXLForSequenceClassification"),
        (),
    ),
    "roberta-prelayernorm": (
        BERT,
        tuple(
            f"RobertaPreLayerNorm{ending}"
            for ending in (
                "ForMaskedLM",
                "ForCausalLM",
                "Model",
                "ForSequenceClassification",
                "ForTokenClassification",
                "ForQuestionAnswering",
            )
        ),
        ({"type_vocab_size": 1, "hidden_act": "relu"},),
    ),
    "data2vec-text": (BERT, ("Data2VecTextForMaskedLM", "Data2VecTextModel"), ()),
    "megatron-bert": (
        BERT,
        (
            "MegatronBertForMaskedLM",
            "MegatronBertForPreTraining",
            "MegatronBertForCausalLM",
            "MegatronBertForSequenceClassification",
            "MegatronBertForTokenClassification",
        ),
        ({"type_vocab_size": 3, "hidden_act": "relu"},),
    ),
    "jina_embeddings_v3": (
        BERT,
        tuple(f"JinaEmbeddingsV3{ending}" for ending in (*GTE_CLASSES, "ForQuestionAnswering")),
        ({"type_vocab_size": 3, "head_dim": 12},),
    ),
    "gte": (
        BERT,
        tuple(f"Gte{ending}" for ending in GTE_CLASSES),
        ({"type_vocab_size": 0, "hidden_act": "silu", "tie_word_embeddings": False},),
    ),
    "nomic_bert": (BERT, tuple(f"NomicBert{ending}" for ending in GTE_CLASSES), ({"head_dim": 12},)),
    "eurobert": (
        BERT | {"num_key_value_heads": 2},
        tuple(f"EuroBert{ending}" for ending in GTE_CLASSES),
        ({"mlp_bias": True, "attention_bias": True, "head_dim": 12, "tie_word_embeddings": True},),
    ),
    "t5gemma": (
        {"encoder": GEMMA2, "decoder": GEMMA2 | {"hidden_size": 48, "num_hidden_layers": 2}},
        ("T5GemmaForConditionalGeneration", "T5GemmaModel"),
        (
            {
                "decoder": GEMMA2 | {"attention_bias": True, "attn_logit_softcapping": None},
                "tie_word_embeddings": False,
            },
            {"encoder": GEMMA2 | {"layer_types": ["full_attention"] * 3, "num_key_value_heads": 4}},
        ),
    ),
    "t5gemma2": (
        {
            "encoder": {
                "text_config": GEMMA2,
                "vision_config": SIGLIP,
                "mm_tokens_per_image": 16,
                "eoi_token_index": 95,
            },
            "decoder": GEMMA2 | {"num_hidden_layers": 2},
        },
        ("T5Gemma2ForConditionalGeneration", "T5Gemma2Model"),
        (
            {"decoder": GEMMA2 | {"attention_bias": True, "num_key_value_heads": 4, "final_logit_softcapping": 20.0}},
            {
                "encoder": {
                    "text_config": GEMMA2 | {"sliding_window": 4, "attention_bias": True},
                    "vision_config": SIGLIP,
                    "mm_tokens_per_image": 4,
                    "eoi_token_index": 90,
                },
                "decoder": GEMMA2 | {"layer_types": ["full_attention", "sliding_attention", "full_attention"]},
            },
        ),
    ),
    "esm": (
        BERT,
        ("EsmForMaskedLM", "EsmModel", "EsmForSequenceClassification", "EsmForTokenClassification"),
        (
            {"position_embedding_type": "rotary", "token_dropout": True, "mask_token_id": 96},
            {"emb_layer_norm_before": True, "tie_word_embeddings": False},
        ),
    ),
    "mpnet": (
        BERT,
        (
            *("MPNetForMaskedLM", "MPNetModel", "MPNetForSequenceClassification"),
            *("MPNetForTokenClassification", "MPNetForQuestionAnswering"),
        ),
        ({"hidden_act": "relu"},),
    ),
    "roformer": (
        BERT,
        (
            *("RoFormerForMaskedLM", "RoFormerModel", "RoFormerForSequenceClassification", "RoFormerForCausalLM"),
            *("RoFormerForTokenClassification", "RoFormerForQuestionAnswering"),
        ),
        ({"embedding_size": 12, "hidden_act": "relu"}, {"type_vocab_size": 3}),
    ),
    "convbert": (
        BERT | {"embedding_size": 32},
        tuple(
            f"ConvBert{ending}"
            for ending in (
                *("ForMaskedLM", "Model", "ForSequenceClassification", "ForTokenClassification"),
                "ForQuestionAnswering",
            )
        ),
        (
            {"embedding_size": 12, "conv_kernel_size": 3, "tie_word_embeddings": False},
            {"head_ratio": 8, "hidden_act": "relu", "type_vocab_size": 3},
            {"head_ratio": 1},
        ),
    ),
    "xlnet": (
        {"vocab_size": 97, "d_model": 32, "n_layer": 3, "n_head": 4, "d_inner": 48},
        (
            *("XLNetLMHeadModel", "XLNetModel", "XLNetForSequenceClassification", "XLNetForTokenClassification"),
            "XLNetForQuestionAnsweringSimple",
        ),
        ({"ff_activation": "relu", "tie_word_embeddings": False},),
    ),
    "funnel": (
        {"vocab_size": 97, "d_model": 32, "n_head": 4, "d_head": 6, "d_inner": 48, "block_sizes": [2, 2, 1]},
        (
            *("FunnelForPreTraining", "FunnelForMaskedLM", "FunnelModel", "FunnelForTokenClassification"),
            *("FunnelForQuestionAnswering", "FunnelBaseModel", "FunnelForSequenceClassification"),
        ),
        (
            {"attention_type": "factorized", "block_repeats": [1, 2, 3], "hidden_act": "relu"},
            {"separate_cls": False, "pooling_type": "max", "num_decoder_layers": 1, "tie_word_embeddings": False},
            {"truncate_seq": False, "block_sizes": [1, 1, 2], "n_head": 1},
            {"pool_q_only": False, "truncate_seq": False, "block_repeats": [1, 3, 2]},
            {"attention_type": "factorized", "separate_cls": False, "block_sizes": [2]},
            {"attention_type": "factorized", "separate_cls": False, "pool_q_only": False},
        ),
    ),
    "deberta": (
        DEBERTA,
        tuple(
            f"Deberta{ending}"
            for ending in (
                *("ForMaskedLM", "Model", "ForSequenceClassification", "ForTokenClassification"),
                "ForQuestionAnswering",
            )
        ),
        (
            {"position_biased_input": False, "legacy": False, "type_vocab_size": 2},
            {"pos_att_type": "c2p", "max_relative_positions": 6},
            {"pos_att_type": ["p2c"], "hidden_act": "relu"},
            {"relative_attention": False},
        ),
    ),
    "deberta-v2": (
        DEBERTA,
        tuple(
            f"DebertaV2{ending}"
            for ending in (
                *("ForMaskedLM", "Model", "ForSequenceClassification", "ForTokenClassification"),
                "ForQuestionAnswering",
            )
        ),
        (
            {"share_att_key": True, "norm_rel_ebd": "layer_norm", "position_biased_input": False, "legacy": False},
            {"position_buckets": 6, "pos_att_type": ["c2p"], "type_vocab_size": 2, "hidden_act": "relu"},
            {"conv_kernel_size": 3, "conv_act": "gelu", "share_att_key": True, "norm_rel_ebd": "layer_norm"},
            {"conv_kernel_size": 5, "conv_groups": 4, "num_hidden_layers": 1},
            {"pos_att_type": "p2c", "max_relative_positions": 9},
            {"relative_attention": False},
        ),
    ),
    "camembert": (BERT, ("CamembertForMaskedLM", "CamembertForTokenClassification"), ()),
    "modernbert": (
        MODERN,
        (
            "ModernBertForMaskedLM",
            "ModernBertModel",
            "ModernBertForSequenceClassification",
            "ModernBertForTokenClassification",
            "ModernBertForQuestionAnswering",
        ),
        (
            {"norm_bias": True, "classifier_bias": True, "decoder_bias": False, "tie_word_embeddings": False},
            {"attention_bias": True, "mlp_bias": True, "global_attn_every_n_layers": 2, "local_attention": 3},
            {"layer_types": ["sliding_attention", "full_attention"] * 2, "hidden_activation": "relu"},
        ),
    ),
    "modernbert-decoder": (
        MODERN,
        ("ModernBertDecoderForCausalLM", "ModernBertDecoderModel"),
        (
            {"norm_bias": True, "classifier_bias": True, "decoder_bias": False, "tie_word_embeddings": False},
            {"attention_bias": True, "mlp_bias": True, "layer_types": ["sliding_attention", "full_attention"] * 2},
        ),
    ),
    "distilbert": (
        {
            "vocab_size": 97,
            "dim": 32,
            "hidden_dim": 48,
            "n_layers": 3,
            "n_heads": 4,
            "max_position_embeddings": 40,
        },
        (
            "DistilBertForMaskedLM",
            "DistilBertModel",
            "DistilBertForSequenceClassification",
            "DistilBertForTokenClassification",
            "DistilBertForQuestionAnswering",
        ),
        ({"tie_word_embeddings": False}, {"sinusoidal_pos_embds": True}),
    ),
    "albert": (
        BERT | {"embedding_size": 12},
        (
            "AlbertForMaskedLM",
            "AlbertForPreTraining",
            "AlbertModel",
            "AlbertForSequenceClassification",
            "AlbertForTokenClassification",
            "AlbertForQuestionAnswering",
        ),
        ({"embedding_size": 32},),
    ),
    "electra": (
        BERT | {"embedding_size": 12},
        (
            "ElectraForPreTraining",
            "ElectraForMaskedLM",
            "ElectraForCausalLM",
            "ElectraModel",
            "ElectraForSequenceClassification",
            "ElectraForTokenClassification",
            "ElectraForQuestionAnswering",
        ),
        ({"embedding_size": 32},),
    ),
    "t5": (
        T5,
        (
            "T5ForConditionalGeneration",
            "T5Model",
            "T5EncoderModel",
            "T5ForSequenceClassification",
            "T5ForTokenClassification",
            "T5ForQuestionAnswering",
        ),
        (
            {"num_decoder_layers": 2, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
            {"relative_attention_num_buckets": 8, "feed_forward_proj": "gelu"},
        ),
    ),
    "mt5": (T5, ("MT5ForConditionalGeneration", "MT5EncoderModel"), ()),
    "umt5": (T5, ("UMT5ForConditionalGeneration", "UMT5Model"), ({"num_decoder_layers": 4},)),
    "longt5": (
        T5 | {"local_radius": 2, "global_block_size": 4},
        ("LongT5ForConditionalGeneration", "LongT5Model", "LongT5EncoderModel"),
        (
            {"encoder_attention_type": "transient-global", "num_decoder_layers": 2, "local_radius": 3},
            {"encoder_attention_type": "transient-global", "feed_forward_proj": "gated-gelu", "local_radius": 20},
            {"encoder_attention_type": "transient-global", "global_block_size": 16, "tie_word_embeddings": False},
        ),
    ),
    "switch_transformers": (
        T5 | {"num_experts": 3, "num_layers": 4, "num_decoder_layers": 4, "num_sparse_encoder_layers": 2},
        ("SwitchTransformersForConditionalGeneration", "SwitchTransformersModel", "SwitchTransformersEncoderModel"),
        (
            {"num_sparse_decoder_layers": 4, "router_bias": True},
            {"num_layers": 5, "num_sparse_encoder_layers": 1, "num_decoder_layers": 2, "num_sparse_decoder_layers": 1},
        ),
    ),
    "bart": (
        BART,
        ("BartForConditionalGeneration", "BartModel", "BartForSequenceClassification", "BartForQuestionAnswering"),
        ({"activation_function": "relu", "scale_embedding": True},),
    ),
    "mbart": (
        BART,
        ("MBartForConditionalGeneration", "MBartForSequenceClassification", "MBartForQuestionAnswering"),
        ({"activation_function": "relu", "scale_embedding": True},),
    ),
    "mvp": (BART, ("MvpForConditionalGeneration", "MvpForSequenceClassification"), ()),
    "led": (
        LED,
        ("LEDForConditionalGeneration", "LEDModel", "LEDForQuestionAnswering"),
        (
            {"attention_window": [4, 12, 4], "activation_function": "relu"},
            {"attention_window": 30, "max_decoder_position_embeddings": 32},
        ),
    ),
    "longformer": (
        BERT | {"attention_window": 4},
        ("LongformerForMaskedLM", "LongformerModel", "LongformerForTokenClassification"),
        (
            {"attention_window": [4, 12, 4], "hidden_act": "relu", "type_vocab_size": 1},
            {"attention_window": 38, "max_position_embeddings": 14},
        ),
    ),
    "big_bird": (
        BERT,
        (
            "BigBirdForPreTraining",
            "BigBirdForMaskedLM",
            "BigBirdForCausalLM",
            "BigBirdModel",
            "BigBirdForSequenceClassification",
            "BigBirdForTokenClassification",
        ),
        (
            {"use_bias": False, "rescale_embeddings": True, "block_size": 3, "hidden_act": "relu"},
            {"attention_type": "original_full", "block_size": 1, "type_vocab_size": 1},
        ),
    ),
    "layoutlmv3": (
        BERT
        | {
            "hidden_size": 36,
            "num_attention_heads": 3,
            "max_2d_position_embeddings": 1025,
            "coordinate_size": 7,
            "shape_size": 4,
            "rel_pos_bins": 8,
            "max_rel_pos": 12,
            "rel_2d_pos_bins": 10,
            "max_rel_2d_pos": 20,
            "input_size": 20,
            "patch_size": 8,
        },
        (
            "LayoutLMv3ForTokenClassification",
            "LayoutLMv3ForQuestionAnswering",
            "LayoutLMv3ForSequenceClassification",
            "LayoutLMv3Model",
        ),
        (
            {"num_labels": 11, "has_spatial_attention_bias": False, "num_channels": 1},
            {"has_relative_attention_bias": False, "has_spatial_attention_bias": False, "type_vocab_size": 1},
        ),
    ),
    "plbart": (BART, ("PLBartForConditionalGeneration", "PLBartForSequenceClassification"), ()),
    "pegasus": (
        BART,
        ("PegasusForConditionalGeneration",),
        ({"scale_embedding": True, "activation_function": "gelu_new"},),
    ),
    "marian": (
        BART,
        ("MarianMTModel", "MarianModel"),
        ({"activation_function": "swish", "decoder_vocab_size": 97, "scale_embedding": True},),
    ),
    "m2m_100": (BART, ("M2M100ForConditionalGeneration", "M2M100Model"), ({"scale_embedding": False},)),
    **{
        name: (
            {"hidden_size": 32} | {key: value for key, value in BART.items() if key != "d_model"} | HEARS,
            (f"{prefix}ForTextToText", f"{prefix}ForSpeechToText"),
            ({"scale_embedding": False, "activation_function": "gelu", "decoder_layers": 3},),
        )
        for name, prefix in (("seamless_m4t", "SeamlessM4T"), ("seamless_m4t_v2", "SeamlessM4Tv2"))
    },
    "nllb-moe": (
        BART | {"encoder_layers": 4, "num_experts": 5, "encoder_sparse_step": 2, "decoder_sparse_step": 1},
        ("NllbMoeForConditionalGeneration", "NllbMoeModel"),
        (
            {"router_bias": True, "decoder_sparse_step": 0, "scale_embedding": False, "num_experts": 2},
            {"activation_function": "gelu", "encoder_sparse_step": 3},
        ),
    ),
    "blenderbot": (BART, ("BlenderbotForConditionalGeneration",), ({"scale_embedding": True},)),
    "blenderbot-small": (
        BART,
        ("BlenderbotSmallForConditionalGeneration", "BlenderbotSmallModel"),
        ({"scale_embedding": True, "activation_function": "relu"},),
    ),
    "imagegpt": (
        GPT2 | {"n_embd": 32},
        ("ImageGPTForCausalImageModeling", "ImageGPTModel", "ImageGPTForImageClassification"),
        ({"n_inner": 48},),
    ),
    "openai-gpt": (
        GPT2 | {"n_embd": 32},
        ("OpenAIGPTLMHeadModel",),
        ({"afn": "relu", "tie_word_embeddings": False},),
    ),
    "decision_transformer": (
        GPT2 | {"vocab_size": 1, "hidden_size": 32, "state_dim": 7, "act_dim": 3, "max_ep_len": 50},
        ("DecisionTransformerModel",),
        ({"n_inner": 48, "action_tanh": False},),
    ),
}


def text_cases() -> list[tuple[str, str, dict[str, Any]]]:
    """(model_type, class of transformers, config) of every class and every variant."""
    cases = []
    for model_type, (config, classes, variants) in TEXT.items():
        cases += [(model_type, name, config) for name in classes]
        cases += [(model_type, classes[0], config | extra) for extra in variants]
    return cases
