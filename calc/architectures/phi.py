"""Phi-1, Phi-1.5 and Phi-2 (arXiv:2306.11644, 2309.05463)."""

from __future__ import annotations

from calc.architectures.common import activation, layer_norm, no_own_d_head
from calc.architectures.config import Config
from calc.architectures.llama import attention, uniform
from calc.spec import Mlp, ModelSpec, QkNorm


def spec(cfg: Config) -> ModelSpec:
    """Attention and a plain MLP after one LayerNorm; rotary positions; biases everywhere, in the head too."""
    norm = layer_norm(cfg, "layer_norm_eps")
    qk_norm = QkNorm(norm=norm) if cfg.flag("qk_layernorm", absent=False) else None
    if qk_norm is not None:
        no_own_d_head(cfg)
    mixer = attention(cfg, qkv_bias=True, out_bias=True, qk_norm=qk_norm, fraction=0.5)
    act = activation(cfg, "hidden_act", absent="gelu_new")
    channel = Mlp(d_ff=cfg.size("intermediate_size"), bias=True, activation=act)
    return uniform(
        cfg, mixer, channel, norm=norm, placement="parallel", residual_dropout=True, max_seq_len=2048, head_bias=True
    )
