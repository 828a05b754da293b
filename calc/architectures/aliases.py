"""Second names of a key: which a family's config class takes, and what other families call the same size.

Source: `attribute_map` of the config classes of transformers 5.23, which `tests/architectures/test_aliases.py` reads
again. A class knows its own second names and no others: a key under a name of another family is an attribute that no
model reads, beside a default that all of it reads.
"""

from __future__ import annotations

GPT = {
    "hidden_size": "n_embd",
    "max_position_embeddings": "n_positions",
    "num_attention_heads": "n_head",
    "num_hidden_layers": "n_layer",
}
T5 = {"hidden_size": "d_model", "num_attention_heads": "num_heads", "num_hidden_layers": "num_layers"}
ENCODER_DECODER = {
    "hidden_size": "d_model",
    "num_attention_heads": "encoder_attention_heads",
    "num_hidden_layers": "encoder_layers",
}
OF_DECODER = {"num_hidden_layers": "decoder_layers", "num_attention_heads": "decoder_attention_heads"}
TOWER = {"num_attention_heads": "num_heads", "num_hidden_layers": "depth"}
OMNI = ("qwen2_5_omni_thinker", "qwen2_5_omni.thinker_config")
OMNI += ("qwen3_omni_moe_thinker", "qwen3_omni_moe.thinker_config")
HEARING = ENCODER_DECODER | {"intermediate_size": "encoder_ffn_dim"}
SWIN = {"num_attention_heads": "num_heads", "num_hidden_layers": "num_layers"}
ROUTED = {"num_local_experts": "n_routed_experts"}
MTP = {"num_mtp_layers": "num_nextn_predict_layers"}
TO_LOCAL = {"num_experts": "num_local_experts"}
FROM_LOCAL = {"num_local_experts": "num_experts"}
STEP = ROUTED | {
    "num_attention_groups": "num_key_value_heads",
    "moe_num_experts": "n_routed_experts",
    "moe_top_k": "num_experts_per_tok",
    "share_expert_dims": "share_expert_dim",
    "num_mtp_layers": "num_nextn_predict_layers",
}
KIMI = {
    "max_position_embeddings": "model_max_length",
    "norm_topk_prob": "moe_renormalize",
    "n_group": "num_expert_group",
    "num_local_experts": "num_experts",
    "num_experts_per_tok": "num_experts_per_token",
    "n_shared_experts": "num_shared_experts",
}

ALIASES: dict[str, dict[str, str]] = {
    **dict.fromkeys(("gpt2", "gpt-sw3", "gptj", "gpt_bigcode", "codegen", "openai-gpt", "imagegpt"), GPT),
    **dict.fromkeys(("t5", "mt5", "umt5", "longt5"), T5 | {"head_dim": "d_kv"}),
    "switch_transformers": T5,
    **dict.fromkeys(("swin", "swinv2"), SWIN),
    **dict.fromkeys(("bart", "mbart", "mvp", "plbart", "pegasus", "marian", "m2m_100", "blenderbot"), ENCODER_DECODER),
    **dict.fromkeys(("blenderbot-small", "nllb-moe", "speech_to_text", "detr"), ENCODER_DECODER),
    **dict.fromkeys(("seamless_m4t", "seamless_m4t_v2"), OF_DECODER),
    "led": ENCODER_DECODER | {"attention_probs_dropout_prob": "attention_dropout"},
    "whisper": ENCODER_DECODER | {"num_key_value_heads": "encoder_attention_heads"},
    **dict.fromkeys(("mixtral", "qwen3_moe", "gpt_oss", "minimax", "minimax_m2", "kolibri1"), TO_LOCAL),
    "qwen3_vl_moe.text_config": TO_LOCAL,
    **dict.fromkeys(("olmoe", "flex_olmo", "jamba"), FROM_LOCAL),
    **dict.fromkeys(("dots1", "solar_open", "mimo_v2_flash", "mistral4", "axk1", "hy_v4"), ROUTED),
    # These classes rename one key more in their code, as Falcon's does.
    **dict.fromkeys(("deepseek_v32", "glm_moe_dsa"), ROUTED | {"num_experts": "n_routed_experts"}),
    **dict.fromkeys(
        ("mistral_large4_text", "mistral_large4.text_config"), ROUTED | {"num_experts": "n_routed_experts"}
    ),
    **dict.fromkeys(("deepseek_v3", "kimi_k2", "kimi_k25.text_config", "glm4_moe"), ROUTED | MTP),
    **{f"{family}.vision_config": TOWER for family in ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe")},
    **{f"{family}.vision_config": TOWER for family in ("glm4v", "glm4v_moe", "glm46v", "glm5_next")},
    **dict.fromkeys(("glm4v_moe.text_config", "glm46v.text_config"), ROUTED),
    **dict.fromkeys(("glm5_next.text_config", "glm5_next_text"), ROUTED),
    "qwen2_audio.audio_config": HEARING,
    **{f"{each}.vision_config": TOWER for each in OMNI},
    **{f"{each}.audio_config": HEARING for each in OMNI},
    "voxtral.audio_config": {
        "d_model": "hidden_size",
        "encoder_layers": "num_hidden_layers",
        "encoder_attention_heads": "num_attention_heads",
        "encoder_ffn_dim": "intermediate_size",
        "encoder_layerdrop": "layerdrop",
    },
    "mllama.vision_config": {"num_attention_heads": "attention_heads"},
    "mllama_vision_model": {"num_attention_heads": "attention_heads"},
    "vision-encoder-decoder.decoder": {
        "hidden_size": "d_model",
        "num_attention_heads": "decoder_attention_heads",
        "num_hidden_layers": "decoder_layers",
    },
    **dict.fromkeys(("qwen3_5.vision_config", "qwen3_5_moe.vision_config", "qwen4_exp.vision_config"), TOWER),
    "bamba": {"layer_types": "layers_block_type"},
    "patchtst": {"hidden_size": "d_model"},
    "funnel": {"hidden_size": "d_model", "num_attention_heads": "n_head"},
    "xlnet": {
        "n_token": "vocab_size",
        "hidden_size": "d_model",
        "num_attention_heads": "n_head",
        "num_hidden_layers": "n_layer",
    },
    "bloom": {"num_attention_heads": "n_head", "num_hidden_layers": "n_layer"},
    "dbrx": {
        "hidden_size": "d_model",
        "max_position_embeddings": "max_seq_len",
        "num_attention_heads": "n_heads",
        "num_hidden_layers": "n_layers",
    },
    "decision_transformer": {key: name for key, name in GPT.items() if key != "hidden_size"},
    "deepseek_v2": {"num_experts": "n_routed_experts"},
    "deepseek_v4": ROUTED | {"intermediate_size": "moe_intermediate_size"},
    "distilbert": {"hidden_size": "dim", "num_attention_heads": "n_heads", "num_hidden_layers": "n_layers"},
    "ernie4_5_moe": {"num_experts": "moe_num_experts", "num_experts_per_tok": "moe_k"},
    "falcon": {"n_embed": "hidden_size"},
    "falcon_h1": {"layer_types": "layers_block_type"},
    "glm4_moe_lite": ROUTED | {"head_dim": "qk_rope_head_dim"},
    "gpt_neo": {"num_attention_heads": "num_heads", "num_hidden_layers": "num_layers"},
    "granitemoehybrid": {"layers_block_type": "layer_types"},
    "hy_v3": FROM_LOCAL,
    "mellum": TO_LOCAL | MTP,
    "hunyuan_v1_moe": FROM_LOCAL | {"num_experts_per_tok": "moe_topk"},
    "jetmoe": {"head_dim": "kv_channels"},
    "internlm3": {"qkv_bias": "attention_bias", "bias": "mlp_bias"},
    "bailing_hybrid": KIMI | MTP,
    "kimi_linear": KIMI,
    **dict.fromkeys(("step3p5", "step3p7.text_config"), STEP),
    "longcat_flash": ROUTED
    | {
        "num_experts_per_tok": "moe_topk",
        "intermediate_size": "ffn_hidden_size",
        "moe_intermediate_size": "expert_ffn_hidden_size",
    },
    "lfm3": {"rms_norm_eps": "norm_eps"},
    "mpt": {"hidden_size": "d_model", "num_attention_heads": "n_heads", "num_hidden_layers": "n_layers"},
    "nemotron_h": ROUTED | {"layer_types": "layers_block_type"},
    "recurrent_gemma": {"sliding_window": "attention_window_size", "layer_types": "layers_block_type"},
    "rwkv": {"max_position_embeddings": "context_length"},
    "zamba2": {"layer_types": "layers_block_type", "head_dim": "attention_head_dim"},
    "xglm": {"hidden_size": "d_model", "num_attention_heads": "attention_heads", "num_hidden_layers": "num_layers"},
}
"""Family, or family and section of its config -> second name -> the class's own name."""

SAME_THING: tuple[frozenset[str], ...] = tuple(
    frozenset(names.split())
    for names in (
        "hidden_size d_model n_embd n_embed dim embed_dim model_dim",
        "num_hidden_layers n_layer n_layers num_layers encoder_layers depth",
        "num_attention_heads n_head n_heads num_heads attention_heads encoder_attention_heads",
        "num_key_value_heads num_kv_heads n_kv_heads n_head_kv kv_n_heads multi_query_group_num",
        "intermediate_size d_ff n_inner ffn_dim ffn_hidden_size hidden_dim encoder_ffn_dim",
        "max_position_embeddings n_positions n_ctx max_seq_len max_sequence_length seq_length",
        "head_dim d_head d_kv attention_head_dim kv_channels",
        "num_experts num_local_experts n_routed_experts moe_num_experts",
        "num_experts_per_tok num_experts_per_token experts_per_token moe_k moe_topk moe_top_k top_k_experts",
        "n_shared_experts num_shared_experts num_shared_expert moe_num_shared_experts",
        "moe_intermediate_size expert_intermediate_size expert_dim d_expert",
        "num_nextn_predict_layers num_mtp_layers",
        "in_channels in_chans num_channels",
        "layer_types layers_block_type",
    )
)
"""Names that families give to the same thing; of each set a class knows one, or those that its map joins."""

OLDER_WORDS = {
    "mamba": "linear_attention",
    "attention": "full_attention",
    "deepseek_sparse_attention": "indexed_attention",
}
"""Words of `layer_types` as older configs have them -> as transformers 5.23 reads them in every family."""


def names_of(name: str, aliases: dict[str, str]) -> tuple[str, ...]:
    """`name` and the other names that a class with this map takes for it, `name` first."""
    own = aliases.get(name, name)
    joined = (own, *(second for second, first in aliases.items() if first == own))
    return (name, *(other for other in joined if other != name))
