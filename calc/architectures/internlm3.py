"""InternLM3 (Shanghai AI Laboratory 2025): Llama's block."""

from __future__ import annotations

from calc.architectures.config import Config
from calc.architectures.llama import attention, gated_mlp, uniform
from calc.errors import Refused
from calc.spec import ModelSpec


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' InternLM3Config: 2 key-value heads, heads 128 wide. `qkv_bias` and `bias` must be
    alike: the original code gives what attention puts out the second one's bias, and transformers the first one's."""
    cfg.multiple("hidden_size", cfg.size("hidden_size"), "num_attention_heads", cfg.size("num_attention_heads"))
    bias = cfg.flag("qkv_bias", absent=False)
    if cfg.flag("bias", absent=False) != bias:
        raise Refused(f"{cfg.where}bias", f"the same as qkv_bias = {bias}", not bias)
    mixer = attention(cfg, kv_absent=2, d_head_absent=128, d_head_null=None, qkv_bias=bias, out_bias=bias)
    return uniform(cfg, mixer, gated_mlp(cfg, bias=bias), eps=1e-5, max_seq_len=32768)
