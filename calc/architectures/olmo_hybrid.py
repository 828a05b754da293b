"""OLMo Hybrid (Ai2 2026): OLMo 3's layer of attention behind three of gated delta nets, whose norms stand before."""

from __future__ import annotations

from collections.abc import Sequence

from calc.architectures.common import linear_kinds, stack
from calc.architectures.config import Config
from calc.architectures.llama import attention, decoder, gated_mlp, rms_norm
from calc.spec import Attention, DeltaNet, LayerGroup, ModelSpec, Norm, QkNorm, Rope


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' OlmoHybridConfig. A rope_theta that is null leaves positions out."""
    n_layers = cfg.layers("num_hidden_layers")
    norm = rms_norm(cfg, wide=True)
    mixers = {"linear": _delta_net(cfg), "full": _attention(cfg, norm)}
    channel = gated_mlp(cfg)

    def layer(kind: str) -> LayerGroup:
        placement = "pre" if kind == "linear" else "output"
        return LayerGroup(count=1, mixer=mixers[kind], channel=channel, norm=norm, placement=placement)

    return decoder(cfg, stack(_kinds(cfg, n_layers), layer), max_seq_len=65536, norm=norm)


def _kinds(cfg: Config, n_layers: int) -> Sequence[str]:
    """What layer_types says, else every fourth layer attends, and the last one where that is none."""
    rule = ["full" if i % 4 == 3 or i == n_layers - 1 < 3 else "linear" for i in range(n_layers)]
    return linear_kinds(cfg, n_layers) or rule


def _attention(cfg: Config, norm: Norm) -> Attention:
    bias = cfg.flag("attention_bias", absent=False)
    structure = {} if _turns(cfg) else {"position": "none", "rope": Rope()}
    return attention(cfg, qkv_bias=bias, out_bias=bias, qk_norm=QkNorm(norm=norm, span="all"), **structure)


def _turns(cfg: Config) -> bool:
    """False where the rope_theta that counts, the section's before the config's own, is null."""
    section = cfg.raw.get("rope_parameters") or cfg.raw.get("rope_scaling")
    holder = section if isinstance(section, dict) and "rope_theta" in section else cfg.raw
    return holder.get("rope_theta", 0) is not None


def _delta_net(cfg: Config) -> DeltaNet:
    """As many heads as attention has, keys three quarters and values one and a half times as wide, unless told."""
    cfg.only("hidden_act", "silu", "swish", why="what this family's convolutions run through")
    n_heads = cfg.size("num_attention_heads")
    n_keys = cfg.size("linear_num_key_heads", absent=n_heads, null=n_heads)
    usual = int(0.75 * cfg.size("hidden_size") / n_keys)
    d_key = cfg.size("linear_key_head_dim", absent=usual, null=usual)
    return DeltaNet(
        n_key_heads=n_keys,
        n_value_heads=cfg.size("linear_num_value_heads", absent=n_heads, null=n_heads),
        d_key=d_key,
        d_value=cfg.size("linear_value_head_dim", absent=2 * d_key, null=2 * d_key),
        d_conv=cfg.size("linear_conv_kernel_dim", absent=4),
        norm=Norm(eps=1e-5),
        double_rate=cfg.flag("linear_allow_neg_eigval", absent=True),
    )
