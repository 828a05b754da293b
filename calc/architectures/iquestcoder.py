"""IQuest-Coder (2026): Llama's block with heads 128 wide."""

from __future__ import annotations

from calc.architectures.config import Config
from calc.architectures.llama import attention, gated_mlp, uniform
from calc.spec import ModelSpec


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' IQuestCoderConfig: 8 key-value heads. Its class builds Llama's model."""
    for key in ("clip_qkv", "use_sliding_window"):
        cfg.only(key, None, False, why="the class refuses the key")
    cfg.multiple("hidden_size", cfg.size("hidden_size"), "num_attention_heads", cfg.size("num_attention_heads"))
    bias = cfg.flag("attention_bias", absent=False)
    mixer = attention(cfg, kv_absent=8, d_head_absent=128, d_head_null=None, qkv_bias=bias, out_bias=bias)
    channel = gated_mlp(cfg, bias=cfg.flag("mlp_bias", absent=False))
    return uniform(cfg, mixer, channel, eps=1e-5, max_seq_len=131072)
