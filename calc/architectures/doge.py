"""Doge (SmallDoge 2025): Llama's block where keys' values mask them, and the stream is scaled ahead of each sum."""

from __future__ import annotations

from calc.architectures.config import Config
from calc.architectures.llama import attention, decoder, gated_mlp, rms_norm
from calc.spec import LayerGroup, ModelSpec, QkNorm


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' DogeConfig: as many key-value heads as heads, all of at most 2048 keys seen.

    Its experts are refused: transformers' class mixes scores of different tokens, so that a text's last token
    changes what the first one visits.
    """
    cfg.only("is_moe", False, why="the class chooses experts by scores of other tokens too")
    bias, norm = cfg.flag("attention_bias", absent=False), rms_norm(cfg)
    mixer = attention(
        cfg,
        qkv_bias=bias,
        out_bias=bias,
        qk_norm=QkNorm(norm=norm),
        window=cfg.size("sliding_window", absent=None, null=None),
        dynamic_mask=cfg.size("keep_window_size", absent=2048),
    )
    layer = LayerGroup(
        count=cfg.layers("num_hidden_layers"),
        mixer=mixer,
        channel=gated_mlp(cfg, bias=cfg.flag("mlp_bias", absent=False)),
        norm=norm,
        kept_scale=True,
        residual_dropout=True,
        outer_dropout="none",
    )
    return decoder(cfg, {"layers": (layer,)}, max_seq_len=2048, norm=norm)
