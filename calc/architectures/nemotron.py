"""Nemotron-4 and Minitron (arXiv:2402.16819, 2407.14679): LayerNorm whose weight is counted from one, half of each head
turning, and a plain MLP with a squared ReLU."""

from __future__ import annotations

from calc.architectures.common import activation
from calc.architectures.config import REFUSE, Config
from calc.architectures.llama import attention, uniform
from calc.spec import Mlp, ModelSpec, Norm


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' NemotronConfig, which has none for key-value heads that its modeling code takes."""
    bias = cfg.flag("attention_bias", absent=False)
    mixer = attention(
        cfg, kv_absent=REFUSE, kv_null=REFUSE, d_head_null=None, fraction=0.5, qkv_bias=bias, out_bias=bias
    )
    norm = Norm(kind="layernorm", bias=True, unit_offset=True, eps=cfg.number("norm_eps", absent=1e-5))
    return uniform(cfg, mixer, squared_relu_mlp(cfg), norm=norm, max_seq_len=4096)


def squared_relu_mlp(cfg: Config, *, bias: bool = False) -> Mlp:
    """down(act(up(x))) of width intermediate_size. bias: what the family takes where mlp_bias is absent."""
    return Mlp(
        d_ff=cfg.size("intermediate_size"),
        bias=cfg.flag("mlp_bias", absent=bias),
        activation=activation(cfg, "hidden_act", absent="relu2"),
    )
