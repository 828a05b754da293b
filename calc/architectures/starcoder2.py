"""StarCoder 2 (arXiv:2402.19173)."""

from __future__ import annotations

from calc.architectures.common import activation, kv_heads
from calc.architectures.config import REFUSE, Config
from calc.architectures.llama import attention, decoder
from calc.spec.model import LayerGroup, Mlp, ModelSpec, Norm

LAYER_NORM = Norm(kind="layernorm", bias=True)


def spec(cfg: Config) -> ModelSpec:
    """LayerNorm before each block, a plain MLP, biases in all of both (`use_bias`), one window for all layers."""
    bias = cfg.flag("use_bias", absent=True)
    n_kv_heads = kv_heads(cfg, cfg.size("num_attention_heads"), absent=2, null=REFUSE)
    layer = LayerGroup(
        count=cfg.layers("num_hidden_layers"),
        mixer=attention(
            cfg,
            n_kv_heads=n_kv_heads,
            qkv_bias=bias,
            out_bias=bias,
            window=cfg.size("sliding_window", absent=None, null=None),
        ),
        channel=Mlp(
            d_ff=cfg.size("intermediate_size"), bias=bias, activation=activation(cfg, "hidden_act", absent="gelu_tanh")
        ),
        norm=LAYER_NORM,
    )
    return decoder(cfg, {"layers": (layer,)}, tied=True, max_seq_len=4096, norm=LAYER_NORM)
