"""BitNet b1.58 2B (Ma et al. 2025, arXiv:2504.12285): Llama's block with norms ahead of both output projections and a
squared ReLU; its matrices are of -1, 0 and 1 in checkpoints alone."""

from __future__ import annotations

from calc.architectures.common import activation
from calc.architectures.config import Config
from calc.architectures.llama import attention, rms_norm, uniform
from calc.spec import Mlp, ModelSpec


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' BitNetConfig: 5 key-value heads. The norm behind attention is hidden_size wide."""
    bias = cfg.flag("attention_bias", absent=False)
    cfg.multiple("hidden_size", cfg.size("hidden_size"), "num_attention_heads", cfg.size("num_attention_heads"))
    cfg.only(
        "head_dim",
        None,
        cfg.size("hidden_size") // cfg.size("num_attention_heads"),
        why="the norm behind the heads is hidden_size wide",
    )
    norm = rms_norm(cfg, 1e-5)
    mixer = attention(
        cfg, kv_absent=5, d_head_null=None, theta=500_000.0, qkv_bias=bias, out_bias=bias, inner_norm=norm
    )
    act = activation(cfg, "hidden_act", absent="relu2")
    channel = Mlp(d_ff=cfg.size("intermediate_size"), gated=True, activation=act, inner_norm=norm)
    return uniform(cfg, mixer, channel, norm=norm, max_seq_len=2048)
