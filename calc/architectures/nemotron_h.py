"""Nemotron-H (arXiv:2504.03624), Nemotron Nano 2 and Nemotron 3: Mamba-2, attention, MLP or experts, one in each layer.

Rules as in transformers' NemotronHConfig and the code that came with the checkpoints.
"""

from __future__ import annotations

from collections.abc import Callable

from calc.architectures.common import activation, kv_heads, stack, without_further_tokens
from calc.architectures.config import Config
from calc.architectures.deepseek_v3 import expert_groups
from calc.architectures.llama import decoder
from calc.architectures.mamba import layer_norm
from calc.architectures.mamba2 import summed
from calc.errors import Refused
from calc.spec import Attention, LayerGroup, Mamba2, Mlp, ModelSpec, Moe

KINDS = {
    "M": "mamba", "*": "attention", "-": "mlp", "E": "moe",
    "mamba": "mamba", "linear_attention": "mamba", "attention": "attention", "full_attention": "attention",
    "mlp": "mlp", "moe": "moe",
}  # fmt: skip
"""A letter of hybrid_override_pattern, or a word of layers_block_type -> the one block of that layer."""


def spec(cfg: Config) -> ModelSpec:
    """RMSNorm before each block; attention without positions."""
    kinds = layer_kinds(cfg)
    cfg.only("sliding_window", None, why="no layer of this family has a window")
    cfg.only("tie_word_embeddings", False, why="implementations differ in whether this family can be tied")
    without_further_tokens(cfg, "num_nextn_predict_layers")
    norm = layer_norm(cfg, wide=True)
    make: dict[str, Callable[[], LayerGroup]] = {
        "mamba": lambda: LayerGroup(count=1, mixer=_mamba2(cfg), norm=norm),
        "attention": lambda: LayerGroup(count=1, mixer=_attention(cfg), norm=norm),
        "mlp": lambda: LayerGroup(count=1, channel=_mlp(cfg), norm=norm),
        "moe": lambda: LayerGroup(count=1, channel=_experts(cfg), norm=norm),
    }
    return decoder(cfg, stack(kinds, lambda kind: make[kind]()), max_seq_len=4096, norm=norm)


def layer_kinds(cfg: Config) -> tuple[str, ...]:
    """What each layer holds: a pattern of letters, or a list of words; num_hidden_layers must agree with either.

    Errors: Refused where neither is there, since the default of the class has four layers and no model has.
    """
    n_layers = cfg.size("num_hidden_layers", absent=None, null=None)
    pattern = cfg.raw.get("hybrid_override_pattern")
    if isinstance(pattern, str):
        cfg.only("hybrid_override_pattern", pattern, why="a string")
        written = list(pattern)
    else:
        cfg.only("hybrid_override_pattern", None, why="a string of M, *, - and E")
        written = next((cfg.raw[key] for key in ("layers_block_type", "layer_types") if cfg.raw.get(key)), None)
    field = f"{cfg.where}hybrid_override_pattern"
    if not isinstance(written, list) or not written or not all(isinstance(w, str) and w in KINDS for w in written):
        raise Refused(field, "M, *, - or E for each layer, or layers_block_type", written)
    if n_layers is not None and n_layers != len(written):
        raise Refused(f"{cfg.where}num_hidden_layers", f"the {len(written)} layers of the pattern", n_layers)
    return tuple(KINDS[word] for word in written)


def _mamba2(cfg: Config) -> Mamba2:
    """Step sizes have a lower end only, `time_step_min`: transformers reads no other key."""
    cfg.only("mamba_hidden_act", "silu", "swish", why="what convolutions and gates run through")
    return Mamba2(
        n_heads=cfg.size("mamba_num_heads"),
        d_head=cfg.size("mamba_head_dim", absent=64),
        d_state=summed(cfg, "ssm_state_size", absent=128),
        n_groups=cfg.size("n_groups", "mamba_n_groups", absent=8),
        d_conv=cfg.size("conv_kernel", "mamba_d_conv", absent=4),
        chunk=summed(cfg, "chunk_size", "mamba_chunk_size", absent=128),
        bias=cfg.flag("use_bias", absent=False),
        conv_bias=cfg.flag("use_conv_bias", "mamba_conv_bias", absent=True),
        norm=layer_norm(cfg),
        dt_min=cfg.number("time_step_min", "mamba_dt_min", absent=0.001),
    )


def _attention(cfg: Config) -> Attention:
    cfg.only("attention_bias", False, why="newer implementations have no bias whatever the config says")
    n_heads = cfg.size("num_attention_heads")
    return Attention(
        n_heads=n_heads,
        n_kv_heads=kv_heads(cfg, n_heads, absent=8),
        d_head=cfg.size("head_dim", absent=128),
        position="none",
    )


def _mlp(cfg: Config) -> Mlp:
    return Mlp(
        d_ff=cfg.size("intermediate_size"),
        bias=cfg.flag("mlp_bias", absent=False),
        activation=activation(cfg, "mlp_hidden_act", absent="relu2"),
    )


def _experts(cfg: Config) -> Moe:
    """Experts without a gate, behind a narrower width where moe_latent_size says so (Nemotron 3 Super)."""
    cfg.only("mlp_bias", False, why="some matrices of a mixture of experts would have biases and others none")
    cfg.only("n_shared_experts", 1, why="implementations differ in what several would be")
    return Moe(
        n_experts=cfg.size("n_routed_experts"),
        top_k=cfg.size("num_experts_per_tok"),
        d_expert=cfg.size("moe_intermediate_size"),
        d_shared=cfg.size("moe_shared_expert_intermediate_size"),
        d_latent=cfg.size("moe_latent_size", absent=None, null=None),
        gated=False,
        activation=activation(cfg, "mlp_hidden_act", absent="relu2"),
        scoring="sigmoid",
        correction=True,
        groups=expert_groups(cfg),
        renormalize=cfg.flag("norm_topk_prob", absent=True),
        scale=cfg.number("routed_scaling_factor", absent=1.0),
    )
