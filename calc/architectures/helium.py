"""Helium 1 (Kyutai 2025): Llama's block with rotary positions of neighbouring pairs."""

from __future__ import annotations

from calc.architectures.config import REFUSE, Config
from calc.architectures.llama import attention, gated_mlp, rms_norm, uniform
from calc.architectures.rope import rope
from calc.errors import Refused
from calc.spec import ModelSpec


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' HeliumConfig: 20 key-value heads, heads 128 wide. The last projection of attention
    is as wide as the model on both sides, and has no bias."""
    turning = rope(cfg, theta=100_000.0, interleaved=True)
    bias = cfg.flag("attention_bias", absent=False)
    mixer = attention(cfg, kv_absent=20, kv_null=REFUSE, d_head_absent=128, qkv_bias=bias, rope=turning)
    d_model = cfg.size("hidden_size")
    if mixer.d_head is not None and mixer.n_heads * mixer.d_head != d_model:
        raise Refused(f"{cfg.where}head_dim", f"hidden_size / num_attention_heads of {d_model}", mixer.d_head)
    norm = rms_norm(cfg, 1e-8, wide=True)
    return uniform(cfg, mixer, gated_mlp(cfg, bias=cfg.flag("mlp_bias", absent=False)), norm=norm, max_seq_len=4096)
