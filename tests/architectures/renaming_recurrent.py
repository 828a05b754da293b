"""Hugging Face's names of parameter tensors in state-space and delta-net layers and their hybrids, read as ours.

Rules as in `renaming.IN_LAYER`. A norm before whatever mixer a layer has is read as a bundle of all of them.
"""

from __future__ import annotations

MAMBA = {"mamba", "falcon_mamba"}
GRANITE = {"granitemoehybrid", "granitemoeshared", "granitemoe_swa"}
NEMOTRON = {"nemotron_h"}
LFM2 = {"lfm2", "lfm2_moe", "lfm3", "lfm2_vl"}
OLMO = {"olmo_hybrid"}
FALCON = {"falcon_h1"}
KIMI = {"kimi_linear", "bailing_hybrid", "glm5_next", "glm5_next_text"}
GRIFFIN = {"recurrent_gemma"}
ZAMBA = {"zamba2"}
QWEN4 = {"qwen4_exp", "qwen4_exp_text"}
QWEN = {"qwen3_next", "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text", *QWEN4}

Rule = tuple[set[str] | None, str, tuple[str, ...]]


def _ssm(families: set[str], theirs: str, ours: str) -> tuple[Rule, ...]:
    """The tensors of a state-space layer called `theirs`."""
    return (
        (families, rf"{theirs}\.(A_log|D|dt_bias)", (rf"{ours}.\1",)),
        (families, rf"{theirs}\.conv1d\.(\w+)", (rf"{ours}.conv.\1",)),
        (families, rf"{theirs}\.(in_proj|x_proj|dt_proj|out_proj|norm)\.(\w+)", (rf"{ours}.\1.\2",)),
        (families, rf"{theirs}\.(dt|b|c)_layernorm\.weight", (rf"{ours}.\1_norm.weight",)),
    )


def _gated(families: set[str], theirs: str, ours: str) -> tuple[Rule, ...]:
    """The tensors of a connection to residual streams called `theirs`."""
    return (
        (families, rf"{theirs}\.hc_norm\.weight", (rf"{ours}.norm.weight",)),
        (families, rf"{theirs}\.input_mix_weight_(down|up)\.weight", (rf"{ours}.\1_proj.weight",)),
        (families, rf"{theirs}\.block_inject_weight\.weight", (rf"{ours}.write_proj.weight",)),
    )


IN_LAYER: tuple[Rule, ...] = (
    (MAMBA, r"norm\.weight", ("mamba_norm.weight",)),
    ({"mamba2"}, r"norm\.weight", ("mamba2_norm.weight",)),
    ({"jamba"}, r"input_layernorm\.weight", ("attention_norm.weight", "mamba_norm.weight")),
    ({"bamba"} | GRANITE, r"input_layernorm\.weight", ("attention_norm.weight", "mamba2_norm.weight")),
    (KIMI, r"input_layernorm\.weight", ("attention_norm.weight", "kda_norm.weight")),
    # Gates of heads and of values have one name in their two kinds of layers.
    ({"bailing_hybrid"}, r"self_attn\.g_proj\.weight", ("attention.head_gate_proj.weight", "kda.g_proj.weight")),
    ({"bailing_hybrid"}, r"self_attn\.forget_gate\.f_proj\.weight", ("kda.f_proj.weight",)),
    (KIMI, r"self_attn\.([qkvo])_proj\.weight", (r"attention.\1_proj.weight", r"kda.\1_proj.weight")),
    (KIMI, r"self_attn\.forget_gate\.(f_a_proj\.weight|f_b_proj\.weight|dt_bias|A_log)", (r"kda.\1",)),
    (KIMI, r"self_attn\.(b_proj|g_a_proj|g_b_proj)\.weight", (r"kda.\1.weight",)),
    (KIMI, r"self_attn\.conv1d\.weight", ("kda.conv.weight",)),
    (KIMI, r"self_attn\.o_norm\.weight", ("kda.norm.weight",)),
    (QWEN, r"input_layernorm\.weight", ("attention_norm.weight", "delta_net_norm.weight")),
    (NEMOTRON, r"norm\.weight", ("attention_norm.weight", "mamba2_norm.weight", "channel_norm.weight")),
    ({"jamba", "bamba"} | FALCON, r"pre_ff_layernorm\.weight", ("channel_norm.weight",)),
    (FALCON, r"input_layernorm\.weight", ("parallel_norm.weight",)),
    (FALCON, r"self_attn\.(\w)_proj\.(\w+)", (r"parallel.attention.\1_proj.\2",)),
    *_ssm(MAMBA, "mixer", "mamba"),
    *_ssm({"mamba2"} | NEMOTRON, "mixer", "mamba2"),
    *_ssm({"jamba"}, "mamba", "mamba"),
    *_ssm({"bamba"} | GRANITE, "mamba", "mamba2"),
    *_ssm(FALCON, "mamba", "parallel.mamba2"),
    (GRIFFIN, r"temporal_pre_norm\.weight", ("attention_norm.weight", "rg_lru_norm.weight")),
    (GRIFFIN, r"channel_pre_norm\.weight", ("channel_norm.weight",)),
    (GRIFFIN, r"temporal_block\.([qkvo])_proj\.(\w+)", (r"attention.\1_proj.\2",)),
    (GRIFFIN, r"temporal_block\.linear_([xy])\.(\w+)", (r"rg_lru.\1_proj.\2",)),
    (GRIFFIN, r"temporal_block\.linear_out\.(\w+)", (r"rg_lru.o_proj.\1",)),
    (GRIFFIN, r"temporal_block\.conv_1d\.(\w+)", (r"rg_lru.conv.\1",)),
    (GRIFFIN, r"temporal_block\.rg_lru\.recurrent_param", ("rg_lru.fade",)),
    (GRIFFIN, r"temporal_block\.rg_lru\.input_gate_(\w+)", (r"rg_lru.input_gate.\1",)),
    (GRIFFIN, r"temporal_block\.rg_lru\.recurrent_gate_(\w+)", (r"rg_lru.recurrence_gate.\1",)),
    (GRIFFIN, r"mlp_block\.(gate|up|down)_proj\.(\w+)", (r"mlp.\1_proj.\2",)),
    *_ssm(ZAMBA, r"(?:mamba_decoder\.)?mamba", "mamba2"),
    (ZAMBA, r"(?:mamba_decoder\.)?input_layernorm\.weight", ("mamba2_norm.weight",)),
    (ZAMBA, r"linear\.weight", ("shared_block.out_proj.weight",)),
    (ZAMBA, r"shared_transformer\.input_layernorm\.weight", ("shared_block.attention_norm.weight",)),
    (ZAMBA, r"shared_transformer\.pre_ff_layernorm\.weight", ("shared_block.channel_norm.weight",)),
    (ZAMBA, r"shared_transformer\.(?:self_attn\.)?([qkvo]_proj\..+)", (r"shared_block.attention.\1",)),
    (ZAMBA, r"shared_transformer\.(?:feed_forward\.)?((?:gate_up|down)_proj\..+)", (r"shared_block.mlp.\1",)),
    *_ssm(QWEN | OLMO, "linear_attn", "delta_net"),
    (QWEN, r"linear_attn\.in_proj_(\w+)\.weight", (r"delta_net.\1_proj.weight",)),
    (QWEN4, r"self_attn\.indexer\.index_qk_proj\.weight", ("attention.indexer.qk_proj.weight",)),
    (QWEN4, r"self_attn\.indexer\.(q|k)_layernorm\.weight", (r"attention.indexer.\1_norm.weight",)),
    *_gated(QWEN4, "attn_hyper_connection", "mixer_streams"),
    *_gated(QWEN4, "mlp_hyper_connection", "channel_streams"),
    (QWEN4, r"ple\.ple_embedding\.ngram_embedding\.weight", ("ngrams.table.weight",)),
    (QWEN4, r"ple\.(k|v)\w+_proj\.weight", (r"ngrams.\1_proj.weight",)),
    (QWEN4, r"ple\.norm_(k|q)\w+\.weight", (r"ngrams.\1_norm.weight",)),
    (QWEN4, r"ple\.norm_conv\.weight", ("ngrams.v_norm.weight",)),
    (QWEN4, r"ple\.conv1d\.weight", ("ngrams.conv.weight",)),
    (OLMO, r"input_layernorm\.weight", ("delta_net_norm.weight",)),
    (OLMO, r"post_attention_layernorm\.weight", ("attention_post_norm.weight", "channel_norm.weight")),
    (OLMO, r"post_feedforward_layernorm\.weight", ("channel_post_norm.weight",)),
    (OLMO, r"linear_attn\.[qkv]_proj\.weight", ("delta_net.qkv_proj.weight",)),
    (OLMO, r"linear_attn\.g_proj\.weight", ("delta_net.z_proj.weight",)),
    (OLMO, r"linear_attn\.([ab])_proj\.weight", (r"delta_net.\1_proj.weight",)),
    (OLMO, r"linear_attn\.o_norm\.weight", ("delta_net.norm.weight",)),
    (OLMO, r"linear_attn\.o_proj\.weight", ("delta_net.out_proj.weight",)),
    # Nemotron-H calls whatever a layer holds its mixer
    (NEMOTRON, r"mixer\.([qkvo])_proj\.(\w+)", (r"attention.\1_proj.\2",)),
    (NEMOTRON, r"mixer\.(up|down)_proj\.(\w+)", (r"mlp.\1_proj.\2",)),
    (NEMOTRON, r"mixer\.gate\.weight", ("moe.router.weight",)),
    (NEMOTRON, r"mixer\.experts\.(up|down)_proj", (r"moe.experts.*.\1_proj.weight",)),
    (NEMOTRON, r"mixer\.shared_experts\.(up|down)_proj\.weight", (r"moe.shared_expert.\1_proj.weight",)),
    (NEMOTRON, r"mixer\.fc1_latent_proj\.weight", ("moe.latent_down.weight",)),
    (NEMOTRON, r"mixer\.fc2_latent_proj\.weight", ("moe.latent_up.weight",)),
    (LFM2, r"operator_norm\.weight", ("attention_norm.weight", "gated_convolution_norm.weight")),
    ({"lfm3"}, r"post_operator_norm\.weight", ("attention_post_norm.weight", "gated_convolution_post_norm.weight")),
    ({"lfm3"}, r"post_ffn_norm\.weight", ("channel_post_norm.weight",)),
    ({"lfm3"}, r"self_attn\.g_proj\.weight", ("attention.head_gate_proj.weight",)),
    (LFM2, r"ffn_norm\.weight", ("channel_norm.weight",)),
    (LFM2, r"conv\.(in_proj|conv|out_proj)\.(\w+)", (r"gated_convolution.\1.\2",)),
    (LFM2, r"feed_forward\.w1\.weight", ("mlp.gate_proj.weight",)),
    (LFM2, r"feed_forward\.w3\.weight", ("mlp.up_proj.weight",)),
    (LFM2, r"feed_forward\.w2\.weight", ("mlp.down_proj.weight",)),
    (LFM2, r"feed_forward\.gate\.weight", ("moe.router.weight",)),
    # experts and dense blocks that hybrids name in their own way
    ({"jamba"}, r"feed_forward\.router\.weight", ("moe.router.weight",)),
    (
        {"jamba"} | LFM2,
        r"feed_forward\.experts\.gate_up_proj",
        ("moe.experts.*.gate_proj.weight", "moe.experts.*.up_proj.weight"),
    ),
    ({"jamba"} | LFM2, r"feed_forward\.experts\.down_proj", ("moe.experts.*.down_proj.weight",)),
    ({"jamba", "bamba"} | FALCON, r"feed_forward\.(gate|up|down)_proj\.(\w+)", (r"mlp.\1_proj.\2",)),
    (
        GRANITE,
        r"shared_mlp\.input_linear\.weight",
        ("moe.shared_expert.gate_proj.weight", "moe.shared_expert.up_proj.weight", "mlp.gate_up_proj.weight"),
    ),
    (GRANITE, r"shared_mlp\.output_linear\.weight", ("moe.shared_expert.down_proj.weight", "mlp.down_proj.weight")),
)

OUTSIDE: tuple[tuple[str, str], ...] = (
    (r"(?:backbone|model)\.embeddings\.weight", "embedding.token.weight"),
    (r"model\.final_norm\.weight", "final_norm.weight"),
    (r"(?:.*\.)?hyper_connection_mixer\.hc_norm\.weight", "collapse.norm.weight"),
    (r"(?:.*\.)?hyper_connection_mixer\.input_mix_weight_(down|up)\.weight", r"collapse.\1_proj.weight"),
    (r"(?:.*\.)?embedding_norm\.weight", "final_norm.weight"),
)
