"""Hugging Face's names of parameter tensors in state-space and delta-net layers and their hybrids, read as ours.

Rules as in `renaming.IN_LAYER`. A norm before whatever mixer a layer has is read as a bundle of all of them.
"""

from __future__ import annotations

MAMBA = {"mamba", "falcon_mamba"}
GRANITE = {"granitemoehybrid"}
NEMOTRON = {"nemotron_h"}
QWEN = {"qwen3_next", "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text"}

Rule = tuple[set[str] | None, str, tuple[str, ...]]


def _ssm(families: set[str], theirs: str, ours: str) -> tuple[Rule, ...]:
    """The tensors of a state-space layer called `theirs`."""
    return (
        (families, rf"{theirs}\.(A_log|D|dt_bias)", (rf"{ours}.\1",)),
        (families, rf"{theirs}\.conv1d\.(\w+)", (rf"{ours}.conv.\1",)),
        (families, rf"{theirs}\.(in_proj|x_proj|dt_proj|out_proj|norm)\.(\w+)", (rf"{ours}.\1.\2",)),
        (families, rf"{theirs}\.(dt|b|c)_layernorm\.weight", (rf"{ours}.\1_norm.weight",)),
    )


IN_LAYER: tuple[Rule, ...] = (
    (MAMBA, r"norm\.weight", ("mamba_norm.weight",)),
    ({"mamba2"}, r"norm\.weight", ("mamba2_norm.weight",)),
    ({"jamba"}, r"input_layernorm\.weight", ("attention_norm.weight", "mamba_norm.weight")),
    ({"bamba"} | GRANITE, r"input_layernorm\.weight", ("attention_norm.weight", "mamba2_norm.weight")),
    (QWEN, r"input_layernorm\.weight", ("attention_norm.weight", "delta_net_norm.weight")),
    (NEMOTRON, r"norm\.weight", ("attention_norm.weight", "mamba2_norm.weight", "channel_norm.weight")),
    ({"jamba", "bamba"}, r"pre_ff_layernorm\.weight", ("channel_norm.weight",)),
    *_ssm(MAMBA, "mixer", "mamba"),
    *_ssm({"mamba2"} | NEMOTRON, "mixer", "mamba2"),
    *_ssm({"jamba"}, "mamba", "mamba"),
    *_ssm({"bamba"} | GRANITE, "mamba", "mamba2"),
    *_ssm(QWEN, "linear_attn", "delta_net"),
    (QWEN, r"linear_attn\.in_proj_(\w+)\.weight", (r"delta_net.\1_proj.weight",)),
    # Nemotron-H calls whatever a layer holds its mixer
    (NEMOTRON, r"mixer\.([qkvo])_proj\.(\w+)", (r"attention.\1_proj.\2",)),
    (NEMOTRON, r"mixer\.(up|down)_proj\.(\w+)", (r"mlp.\1_proj.\2",)),
    (NEMOTRON, r"mixer\.gate\.weight", ("moe.router.weight",)),
    (NEMOTRON, r"mixer\.experts\.(up|down)_proj", (r"moe.experts.*.\1_proj.weight",)),
    (NEMOTRON, r"mixer\.shared_experts\.(up|down)_proj\.weight", (r"moe.shared_expert.\1_proj.weight",)),
    (NEMOTRON, r"mixer\.fc1_latent_proj\.weight", ("moe.latent_down.weight",)),
    (NEMOTRON, r"mixer\.fc2_latent_proj\.weight", ("moe.latent_up.weight",)),
    # experts and dense blocks that hybrids name in their own way
    ({"jamba"}, r"feed_forward\.router\.weight", ("moe.router.weight",)),
    (
        {"jamba"},
        r"feed_forward\.experts\.gate_up_proj",
        ("moe.experts.*.gate_proj.weight", "moe.experts.*.up_proj.weight"),
    ),
    ({"jamba"}, r"feed_forward\.experts\.down_proj", ("moe.experts.*.down_proj.weight",)),
    ({"jamba", "bamba"}, r"feed_forward\.(gate|up|down)_proj\.(\w+)", (r"mlp.\1_proj.\2",)),
    (
        GRANITE,
        r"shared_mlp\.input_linear\.weight",
        ("moe.shared_expert.gate_proj.weight", "moe.shared_expert.up_proj.weight", "mlp.gate_up_proj.weight"),
    ),
    (GRANITE, r"shared_mlp\.output_linear\.weight", ("moe.shared_expert.down_proj.weight", "mlp.down_proj.weight")),
)

OUTSIDE: tuple[tuple[str, str], ...] = ((r"(?:backbone|model)\.embeddings\.weight", "embedding.token.weight"),)
