"""Code World Model (arXiv:2510.02387): Llama's block, one full layer to three sliding ones."""

from __future__ import annotations

from calc.architectures.common import layer_kinds, sliding_stack
from calc.architectures.config import REFUSE, Config
from calc.architectures.llama import attention, decoder, gated_mlp, rms_norm
from calc.architectures.rope import rope
from calc.spec import ModelSpec

DEFAULT = {
    "rope_type": "llama3",
    "rope_theta": 1e6,
    "factor": 16.0,
    "original_max_position_embeddings": 8192,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
}
"""What CwmConfig takes for an absent `rope_parameters`, whatever rope_theta says."""


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' CwmConfig: 8 key-value heads, heads 128 wide, a window of 8192, the first layer of
    every four full."""
    cfg.multiple("hidden_size", cfg.size("hidden_size"), "num_attention_heads", cfg.size("num_attention_heads"))
    n_layers = cfg.layers("num_hidden_layers")
    window = cfg.size("sliding_window", absent=8192)
    turning = rope(cfg, theta=1e6, default=DEFAULT)
    mixer = attention(cfg, kv_absent=8, kv_null=REFUSE, d_head_absent=128, rope=turning)
    channel = gated_mlp(cfg, bias=cfg.flag("mlp_bias", absent=False))
    norm = rms_norm(cfg, 1e-5)
    kinds = layer_kinds(cfg, ["sliding" if i % 4 else "full" for i in range(n_layers)])
    layers = sliding_stack(kinds, mixer, window, channel=channel, norm=norm)
    return decoder(cfg, layers, max_seq_len=131072, norm=norm)
