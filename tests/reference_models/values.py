"""Small configs of every family that reads text alone, with the values that cost nothing far from their defaults."""

from __future__ import annotations

from functools import cache
from typing import Any

import transformers

from tests.architectures.cases import BASES
from tests.architectures.cases_dense import DENSE
from tests.architectures.cases_latent import LATENT_CASES
from tests.architectures.cases_recent import RECENT
from tests.architectures.cases_recurrent import RECURRENT
from tests.architectures.cases_vision import GEMMA4_TEXT, LLAMA4_TEXT

OTHERWISE = {
    "minicpm": "transformers has no such class",
    "rwkv7": "transformers has no such class",
    "mimo": "transformers has no such class; it is qwen2 with modules for further tokens",
    "kimi_k2": "transformers knows it as deepseek_v3",
    "gpt-sw3": "transformers knows it as gpt2",
    "mistral_large4_text": "transformers has no class of it that writes; test_latent has it beside a tower",
    "glm5_next_text": "transformers has no class of it that writes; test_latent has glm5_next's",
    "blt": "it reads whole texts, in patches that it is told; tests/architectures/test_blt.py compares them",
    "mllama_text_model": "it skips layers that it has; tests/architectures/test_mllama_text.py compares it",
}
"""Families whose logits are not compared with transformers' here, and why not."""
CASES: dict[str, dict[str, Any]] = BASES | {
    **{name: cases[0] for name, cases in DENSE.items()},
    **{name: cases[0] for name, cases in LATENT_CASES.items()},
    **{name: cases[0] for name, cases in RECENT.items()},
    **{name: cases[0] for name, cases in RECURRENT.items() if "text_config" not in cases[0]},
    "gemma4_text": GEMMA4_TEXT,
    "llama4_text": LLAMA4_TEXT,
}
"""model_type -> a small config, of the families that AutoModelForCausalLM builds."""
CASES = {name: config for name, config in CASES.items() if name not in OTHERWISE}
for _indexed in ("deepseek_v32", "glm_moe_dsa", "deepseek_v4", "hy_v4"):
    # With few heads all products of a pair may be negative: scores of 0 are alike, and which is chosen is chance.
    CASES[_indexed] = CASES[_indexed] | {"index_n_heads": 24}
CASES["qwen4_exp_text"] = RECURRENT["qwen4_exp_text"][1] | {"indexer_n_heads": 24}
# Numbers of keys lie close together: which come last of the few that a query sees is chance. Here it leaves out two.
CASES["doge"] = CASES["doge"] | {"keep_window_size": 38}

EPS = 0.03
GROWS = {"llama_4_scaling_beta": 0.6, "original_max_position_embeddings": 7}
VALUES: dict[str, Any] = {
    **dict.fromkeys(("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_eps", "norm_epsilon"), EPS),
    "mixer_rms_eps": EPS,
    "embedding_multiplier": 3.0,
    "residual_multiplier": 0.4,
    "attention_multiplier": 0.3,
    "logits_scaling": 2.0,
    "logit_scale": 0.3,
    "moe_renormalize": False,
    "moe_token_dropout": 0.3,
    "use_mem_rope": True,
    "use_shared_attention_adapter": True,
    "mlp_multipliers": [0.7, 1.6],
    "ssm_multipliers": [0.6, 1.3, 0.8, 1.4, 0.9],
    **{f"{name}_multiplier": value for name, value in (
        ("lm_head", 0.3), ("key", 0.4), ("attention_in", 0.7), ("attention_out", 1.5), ("ssm_in", 1.2),
        ("ssm_out", 0.8),
    )},
    "mamba_rms_norm": True,
    "mamba_norm_before_gate": False,
    "attn_temperature_tuning": True,
    "floor_scale": 7,
    "attn_scale": 0.6,
    "time_step_min": 0.2,
    "time_step_limit": [0.1, 0.9],
    "router_jitter_noise": 0.2,
    "scale_emb": 3.0,
    "scale_depth": 0.7,
    "dim_model_base": 11,
    "query_pre_attn_scalar": 5,
    "attn_logit_softcapping": 3.0,
    "final_logit_softcapping": 2.0,
    "logits_soft_cap": 2.0,
    "routed_scaling_factor": 1.7,
    "route_scale": 1.7,
    "router_scaling_factor": 1.7,
    "moe_routed_scaling_factor": 1.7,
    "mup_enabled": True,
    "linear_allow_neg_eigval": False,
    "clip_qkv": 0.5,
    "swiglu_alpha": 1.1,
    "swiglu_limit": 0.5,
    "swiglu_limits": [0.5, None, 0.04, 0.3],
    "swiglu_limits_shared": [0.02, 0.4, 0.05, 0],
    "moe_router_scaling_factor": 1.7,
    "kda_lower_bound": -1.3,
    "hc_eps": 0.02,
    "hc_magnitude": 1.3,
    "rope_theta": 71.0,
    "compress_rope_theta": 53.0,
    "partial_rotary_factor": 0.25,
    "attention_value_scale": 0.4,
    "scale_attn_by_inverse_layer_idx": True,
    "scale_attn_weights": False,
    "reorder_and_upcast_attn": True,
    "scale_embedding": True,
    "rescale_embeddings": True,
    "scale_decoder_outputs": False,
    "rope_interleave": False,
    "apply_residual_connection_post_layernorm": True,
    **{f"{name}_{which}_factor": value for name, which, value in (
        ("full_attn", "alpha", 1.3), ("full_attn", "beta", 0.6), ("linear_attn", "alpha", 0.7),
        ("linear_attn", "beta", 1.2), ("mlp", "alpha", 0.9), ("mlp", "beta", 1.4),
    )},
}  # fmt: skip


COUNTED = {
    *(
        "tie_word_embeddings",
        "attention_bias",
        "mlp_bias",
        "qkv_bias",
        "use_qkv_bias",
        "use_bias",
        "bias",
        "enable_bias",
        "norm_bias",
        "decoder_bias",
        "classifier_bias",
        "sparse_prediction",
        "share_encoder_decoder_embeddings",
        "use_prompt",
    ),
    *(
        "no_bias",
        "lm_head_bias",
        "router_bias",
        "use_conv_bias",
        "mamba_conv_bias",
        "mamba_proj_bias",
        "projectors_bias",
        *("add_bias_linear", "use_long_context"),
        "use_post_norm",
        "use_qk_norm",
        *("use_sandwich_norm", "use_attention_gate", "kda_safe_gate"),
    ),
    *("attention_out_bias", "altup_correct_scale"),
    *("qk_layernorm", "layer_norm_elementwise_affine", "_remove_final_layer_norm", "do_layer_norm_before", "alibi"),
    *("use_parallel_residual", "parallel_attn", "new_decoder_architecture", "multi_query", "use_sliding_window"),
    *("gating", "moe_apply_router_weight_on_input", "moe_router_logit_softcapping"),
    *("attention_k_eq_v", "enable_moe_block", "use_double_wide_mlp", "use_bidirectional_attention", "is_gated_act"),
    *("is_folding_model", "emb_layer_norm_before", "token_dropout"),
    *("has_relative_attention_bias", "has_spatial_attention_bias"),
    *("relative_attention", "position_biased_input", "legacy", "bi_data"),
    *("pool_q_only", "separate_cls", "truncate_seq"),
    *("add_cross_attention", "is_decoder", "is_encoder_decoder", "action_tanh", "learned_pos_emb", "add_router_probs"),
    *("block_auto_adjust_ff_dim", "block_ffn_dim_multiplier", "conv_bias", "use_expert_bias", "is_moe"),
}
"""Switches of structure, which the tests of the importers try or find refused."""
IGNORED = {
    # training
    *("normalize_router_prob_before_dropping", "batch_prioritized_routing"),
    "learnable_sink_init",
    *("linear_a_log_min", "linear_a_log_max", "linear_dt_min", "linear_dt_max", "linear_dt_init_floor"),
    *(
        "initializer_range",
        "lambda_std_dev",
        "embedding_initializer_range",
        "initializer_factor",
        "w_init_variance_scale",
        "final_w_init_variance_scale",
        "init_std",
        "rescale_prenorm_residual",
        "embedding_fraction",
    ),
    *("time_step_floor", "time_step_max", "time_step_scale", "input_jitter_noise", "router_aux_loss_coef"),
    *("mtp_loss_scaling_factor", "aux_loss_coef", "altup_coef_clip"),
    *("router_z_loss_coef", "z_loss_coefficient", "router_ignore_padding_tokens"),
    # dropout
    *("activation_dropout", "attention_dropout", "attention_probs_dropout_prob", "attn_pdrop", "classifier_dropout"),
    *(
        "classifier_dropout_prob",
        "classifier_dropout_rate",
        "decoder_layerdrop",
        "dropout",
        "dropout_rate",
        "emb_pdrop",
        "embd_pdrop",
    ),
    *("embed_dropout", "embedding_dropout", "encoder_layerdrop", "hidden_dropout", "hidden_dropout_prob", "layerdrop"),
    *(
        "mlp_dropout",
        "pooler_dropout",
        "qa_dropout",
        "resid_dropout",
        "resid_pdrop",
        "residual_dropout",
        "seq_classif_dropout",
    ),
    *("summary_first_dropout", "summary_last_dropout"),
    # rounding, and which code runs
    *("deterministic_flash_attn", "initializer_cutoff_factor"),
    *("attention_softmax_in_fp32", "scale_attention_softmax_in_fp32", "residual_in_fp32", "slow_but_exact"),
    "enable_moe_fp32_combine",
    *("use_associative_scan", "use_mamba_kernels", "use_mambapy", "use_mem_eff_path", "moe_shared_expert_overlap"),
    # what is returned, and classes that are not described
    *("output_attentions", "output_hidden_states", "output_router_logits", "return_dict", "use_cache"),
    *("summary_proj_to_labels", "summary_use_proj"),
    # what is remembered of earlier texts
    *("use_mems_eval", "use_mems_train", "same_length"),
    # how a table is filled before training
    "sinusoidal_pos_embds",
}
"""Keys that do not change what a model without training noise gives for its weights."""
NOT_READ = {
    ("mpt", "logit_scale"),
    ("gemma3_text", "attn_logit_softcapping"),
    ("deepseek_v4", "norm_topk_prob"),
    ("ernie4_5_moe", "moe_norm_min"),
    ("roformer", "rotary_value"),
    ("longformer", "onnx_export"),
    *(("layoutlmv3", name) for name in ("text_embed", "visual_embed")),
    ("nllb-moe", "moe_eval_capacity_token_fraction"),
    *(
        (name, key)
        for name in ("seamless_m4t", "seamless_m4t_v2")
        for key in ("add_adapter", "adaptor_dropout", "leaky_relu_slope", "var_pred_dropout")
    ),
    *(
        (name, f"speech_encoder_{key}")
        for name in ("seamless_m4t", "seamless_m4t_v2")
        for key in ("dropout", "layerdrop")
    ),
    ("seamless_m4t_v2", "t2u_variance_pred_dropout"),
}
"""Keys of a class that its model does not read, or that are refused."""


@cache
def defaults(model_type: str) -> dict[str, Any]:
    """What transformers takes for every key that a config leaves out."""
    return transformers.AutoConfig.for_model(model_type).to_dict()


def values_of(model_type: str) -> dict[str, Any]:
    """Those of VALUES that the family reads, rotary positions, and renormalising the other way round."""
    known = defaults(model_type)
    values = {key: value for key, value in VALUES.items() if key in known and (model_type, key) not in NOT_READ}
    if "norm_topk_prob" in known and (model_type, "norm_topk_prob") not in NOT_READ:
        values["norm_topk_prob"] = not known["norm_topk_prob"]
    if isinstance(known.get("rope_parameters"), dict):
        values["rope_parameters"] = _rope(known["rope_parameters"])
    if model_type == "step3p5":
        # By default none of its layers slide, and none have angles for that.
        one = {"rope_type": "default", "rope_theta": 40.0, "partial_rotary_factor": 0.5}
        values["rope_parameters"] = {"sliding_attention": one, "full_attention": one | {"rope_theta": 37.0}}
    if model_type == "mistral4":
        # Which share of a head turns follows from its widths, and its class turns all of it where nothing is stretched.
        kept = {key: value for key, value in known["rope_parameters"].items() if key != "partial_rotary_factor"}
        values["rope_parameters"] = kept | {"rope_theta": 37.0, "factor": 4.0} | GROWS
    return values


def _rope(known: dict[str, Any]) -> dict[str, Any]:
    """Other angles than `known` gives, for each kind of layer where it tells them apart."""
    if "rope_type" not in known:
        return {kind: _rope(one) | {"rope_theta": 30.0 + i} for i, (kind, one) in enumerate(known.items())}
    kind = "proportional" if known["rope_type"] == "proportional" else "default"
    return (
        {"rope_type": kind, "rope_theta": 37.0}
        | ({"partial_rotary_factor": 0.75} if "partial_rotary_factor" in known else {})
        | (GROWS if "llama_4_scaling_beta" in known else {})
    )
