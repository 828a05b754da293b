"""Hugging Face's names of parameter tensors in latent and compressed attention and large mixtures of experts, as ours.

Rules as in `renaming.IN_LAYER`.
"""

from __future__ import annotations

import re

LATENT = {
    "deepseek_v2",
    "deepseek_v3",
    "deepseek_v32",
    "kimi_k2",
    "kimi_k25",
    "minicpm3",
    "glm4_moe_lite",
    "glm_moe_dsa",
    "kimi_linear",
    "bailing_hybrid",
    "youtu",
    "mistral4",
    "mistral_large4",
    "mistral_large4_text",
    "longcat_flash",
    "axk1",
    "hy_v4",
    "glm5_next",
    "glm5_next_text",
}
LARGE4 = {"mistral_large4", "mistral_large4_text"}
V4 = {"deepseek_v4"}
GLM5 = {"glm5_next", "glm5_next_text"}
STREAMS = V4 | GLM5 | {"hy_v4"}
GEMMA3N = {"gemma3n_text"}
STEP = {"step3p5", "step3p7"}
MINIMAX = {"minimax"}
AFMOE = {"afmoe"}
DOGE = {"doge"}
ZAYA = {"zaya"}

Rule = tuple[set[str] | None, str, tuple[str, ...]]


def _v4(theirs: str, ours: str) -> tuple[Rule, ...]:
    """What makes entries, in attention and in its indexer."""
    return (
        (V4, rf"self_attn\.{theirs}\.(kv_proj|gate_proj|kv_norm)\.weight", (rf"attention.{ours}.\1.weight",)),
        (V4, rf"self_attn\.{theirs}\.position_bias", (f"attention.{ours}.position_bias",)),
    )


def _joined(theirs: str, ours: str) -> tuple[Rule, ...]:
    """What shifts and scales a block's result, and the stream that it is added to (ZAYA1)."""
    made = (("hidden_states", "scale"), ("residual", "kept"))
    which = (("scale", "weight"), ("bias", "bias"))
    return tuple(
        (ZAYA, rf"post_{theirs}_residual_scale\.{theirs_of}_{name}", (f"{ours}_{ours_of}.{own}",))
        for theirs_of, ours_of in made
        for name, own in which
    )


def paired(name: str) -> str:
    """`name` of a parameter in LongCat-Flash's layers, each of which is two of ours, under the number of ours."""
    found = re.fullmatch(r"(.*layers)\.(\d+)\.(?:(\w+)\.([01])\.(.*)|(mlp\..*))", name)
    if not found:
        return name
    first, block, half, rest = 2 * int(found[2]), found[3], int(found[4] or 0), found[5]
    if block == "mlps":
        block = "mlp" if half else "mlp.dense"
    return f"{found[1]}.{first + half}.{found[6] or f'{block}.{rest}'}"


IN_LAYER: tuple[Rule, ...] = (
    ({"longcat_flash"}, r"mlp\.dense\.(\w+)\.weight", (r"moe.mlp.\1.weight",)),
    ({"longcat_flash"}, r"mlp\.router\.classifier\.weight", ("moe.router.weight",)),
    (LATENT, r"self_attn\.(q_a|kv_a)_proj(?:_with_mqa)?\.(\w+)", (r"attention.\1_proj.\2",)),
    (LATENT, r"self_attn\.(q_a|kv_a)_layernorm\.weight", (r"attention.\1_norm.weight",)),
    (LATENT, r"self_attn\.(q_b|kv_b)_proj\.weight", (r"attention.\1_proj.weight",)),
    (LATENT, r"self_attn\.indexer\.wq_b\.weight", ("attention.indexer.q_b_proj.weight",)),
    (LATENT, r"self_attn\.indexer\.wk\.weight", ("attention.indexer.k_proj.weight",)),
    (LATENT, r"self_attn\.indexer\.(k_norm|weights_proj)\.(\w+)", (r"attention.indexer.\1.\2",)),
    (LARGE4, r"self_attn\.(indexer\.)?softmax_scaling\.(scale|bias)", (r"attention.\1temperature.\2",)),
    (LARGE4, r"self_attn\.indexer\.q_input_norm\.(\w+)", (r"attention.indexer.q_norm.\1",)),
    (GLM5, r"self_attn\.indexer\.index_kpool_compress_ape", ("attention.indexer.pool_bias",)),
    (GLM5, r"self_attn\.indexer\.index_kpool_compress_gate", ("attention.indexer.pool_gate.weight",)),
    (
        V4,
        r"self_attn\.(q_a_proj|q_a_norm|q_b_proj|kv_proj|kv_norm|o_a_proj|o_b_proj)\.weight",
        (r"attention.\1.weight",),
    ),
    *_v4(r"compressor", "compressor"),
    *_v4(r"compressor\.indexer", "compressor.indexer"),
    (V4, r"self_attn\.compressor\.indexer\.q_b_proj\.weight", ("attention.compressor.indexer.q_b_proj.weight",)),
    (
        V4,
        r"self_attn\.compressor\.indexer\.scorer\.weights_proj\.weight",
        ("attention.compressor.indexer.weights_proj.weight",),
    ),
    (STREAMS, r"attn_hc\.fn", ("mixer_streams.weights.weight",)),
    (STREAMS, r"attn_hc\.(base|scale)", (r"mixer_streams.\1",)),
    (STREAMS, r"ffn_hc\.fn", ("channel_streams.weights.weight",)),
    (STREAMS, r"ffn_hc\.(base|scale)", (r"channel_streams.\1",)),
    ({"hy_v4"}, r"self_attn\.gate_proj\.weight", ("attention.gate_proj.weight",)),
    (MINIMAX, r"input_layernorm\.weight", ("attention_norm.weight", "linear_attention_norm.weight")),
    (MINIMAX, r"self_attn\.qkv_proj\.weight", ("linear_attention.qkv_proj.weight",)),
    (MINIMAX, r"self_attn\.norm\.weight", ("linear_attention.norm.weight",)),
    (MINIMAX, r"self_attn\.output_gate\.weight", ("linear_attention.gate_proj.weight",)),
    (MINIMAX, r"self_attn\.out_proj\.weight", ("linear_attention.o_proj.weight",)),
    ({"ernie4_5_moe"}, r"mlp\.gate\.moe_statics\.e_score_correction_bias", ("moe.correction",)),
    ({"hunyuan_v1_moe"}, r"mlp\.gate\.wg\.weight", ("moe.router.weight",)),
    ({"hunyuan_v1_moe"}, r"mlp\.shared_mlp\.(\w+)\.weight", (r"moe.shared_expert.\1.weight",)),
    ({"laguna", *STEP}, r"self_attn\.g_proj\.weight", ("attention.head_gate_proj.weight",)),
    (STEP, r"mlp\.shared_experts\.(\w+)\.(\w+)", (r"moe.shared_expert.\1.\2",)),
    ({"laguna"}, r"mlp\.gate\.e_score_correction_bias", ("moe.correction",)),
    ({"bitnet"}, r"self_attn\.attn_sub_norm\.weight", ("attention.inner_norm.weight",)),
    ({"bitnet"}, r"mlp\.ffn_sub_norm\.weight", ("mlp.inner_norm.weight",)),
    ({"jetmoe"}, r"self_attention\.kv_proj\.weight", ("attention.k_proj.weight", "attention.v_proj.weight")),
    ({"jetmoe"}, r"self_attention\.experts\.router\.layer\.weight", ("attention.queries.router.weight",)),
    ({"jetmoe"}, r"self_attention\.experts\.input_linear\.weight", ("attention.queries.experts.*.q_proj.weight",)),
    ({"jetmoe"}, r"self_attention\.experts\.output_linear\.weight", ("attention.outputs.experts.*.o_proj.weight",)),
    ({"jetmoe"}, r"self_attention\.experts\.bias", ("attention.outputs.bias",)),
    ({"jetmoe"}, r"mlp\.bias", ("moe.bias",)),
    ({"jetmoe"}, r"mlp\.router\.layer\.weight", ("moe.router.weight",)),
    ({"jetmoe"}, r"mlp\.input_linear\.weight", ("moe.experts.*.gate_proj.weight", "moe.experts.*.up_proj.weight")),
    ({"jetmoe"}, r"mlp\.output_linear\.weight", ("moe.experts.*.down_proj.weight",)),
    ({"diffllama"}, r"self_attn\.(lambda_[qk][12])", (r"attention.difference.\1",)),
    (DOGE, r"mlp\.router_gate\.weight", ("mlp.router.weight",)),
    (DOGE, r"mlp\.(down|up)_embed\.weight", (r"mlp.retrieved.\1.weight",)),
    (DOGE, r"input_residual", ("attention_kept.weight",)),
    (DOGE, r"post_attention_residual", ("channel_kept.weight",)),
    (DOGE, r"self_attn\.A", ("attention.dynamic_mask.decay",)),
    (DOGE, r"self_attn\.dt_proj\.(\w+)", (r"attention.dynamic_mask.proj.\1",)),
    (ZAYA, r"self_attn\.qkv_proj\.(\w_proj\w*)\.(\w+)", (r"attention.\1.\2",)),
    (ZAYA, r"self_attn\.qkv_proj\.conv_qk_depthwise\.(\w+)", (r"attention.conv.\1",)),
    (ZAYA, r"self_attn\.qkv_proj\.conv_qk_grouped\.(\w+)", (r"attention.head_conv.\1",)),
    (ZAYA, r"self_attn\.qk_norm\.temp", ("attention.key_scale",)),
    (ZAYA, r"mlp\.gate\.down_proj\.(\w+)", (r"moe.router.down.\1",)),
    (ZAYA, r"mlp\.gate\.router_states_scale", ("moe.router.carry.weight",)),
    (ZAYA, r"mlp\.gate\.router_mlp\.norm\.weight", ("moe.router.norm.weight",)),
    (ZAYA, r"mlp\.gate\.router_mlp\.fc1\.(\w+)", (r"moe.router.first.\1",)),
    (ZAYA, r"mlp\.gate\.router_mlp\.fc2\.(\w+)", (r"moe.router.second.\1",)),
    (ZAYA, r"mlp\.gate\.router_mlp\.out_proj\.weight", ("moe.router.scores.weight",)),
    *_joined("attention", "attention"),
    *_joined("mlp", "channel"),
    ({"apertus"}, r"attention_layernorm\.weight", ("attention_norm.weight",)),
    ({"apertus"}, r"feedforward_layernorm\.weight", ("channel_norm.weight",)),
    ({"apertus"}, r"mlp\.act_fn\.(alpha_[pn])", (r"mlp.activation.\1",)),
    (GEMMA3N, r"altup\.prediction_coefs\.weight", ("altup.predict.weight",)),
    (GEMMA3N, r"altup\.modality_router\.weight", ("altup.router.weight",)),
    (GEMMA3N, r"altup\.router_norm\.weight", ("altup.router_norm.weight",)),
    (GEMMA3N, r"altup\.correction_coefs\.weight", ("altup_correction.correct.weight",)),
    (GEMMA3N, r"altup\.correct_output_scale", ("altup_scale.weight",)),
    (GEMMA3N, r"laurel\.linear_(left|right)\.weight", (r"laurel.\1_proj.weight",)),
    (GEMMA3N, r"laurel\.post_laurel_norm\.weight", ("laurel.norm.weight",)),
    (GEMMA3N, r"per_layer_input_gate\.weight", ("per_layer.gate_proj.weight",)),
    (GEMMA3N, r"per_layer_projection\.weight", ("per_layer.up_proj.weight",)),
    (GEMMA3N, r"post_per_layer_input_norm\.weight", ("per_layer_post_norm.weight",)),
    ({"axk1"}, r"mlp\.post_mlp_layernorm\.weight", ("channel_post_norm.weight",)),
    (AFMOE, r"post_attention_layernorm\.weight", ("attention_post_norm.weight",)),
    (AFMOE, r"pre_mlp_layernorm\.weight", ("channel_norm.weight",)),
    (AFMOE, r"post_mlp_layernorm\.weight", ("channel_post_norm.weight",)),
    (AFMOE, r"self_attn\.gate_proj\.weight", ("attention.q_proj.weight",)),
    (AFMOE, r"mlp\.router\.gate\.weight", ("moe.router.weight",)),
    (AFMOE, r"mlp\.expert_bias", ("moe.correction",)),
    (None, r"mlp\.shared_experts\.(\w+)\.weight", (r"moe.shared_expert.\1.weight",)),
)

OUTSIDE: tuple[tuple[str, str], ...] = (
    (r"model\.altup_projections\.\d+\.weight", "altup_in.project.weight"),
    (r"model\.altup_unembed_projections\.\d+\.weight", "altup_out.project.weight"),
    (r"model\.embed_tokens_per_layer\.weight", "per_layer.token.weight"),
    (r"model\.per_layer_model_projection\.weight", "per_layer.project.weight"),
    (r"model\.per_layer_projection_norm\.weight", "per_layer.norm.weight"),
    (r"model\.input_hidden_states_scale", "embedding.weighed.weight"),
    (r"model\.input_hidden_states_bias", "embedding.weighed.bias"),
    (r"model\.hc_head\.hc_fn", "collapse.weights.weight"),
    (r"model\.hc_head\.hc_(base|scale)", r"collapse.\1"),
)
