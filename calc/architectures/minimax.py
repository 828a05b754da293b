"""MiniMax-Text-01 (arXiv:2501.08313): lightning attention with softmax attention between, and experts in all layers."""

from __future__ import annotations

from calc.architectures.common import d_head, linear_kinds, stack
from calc.architectures.config import Config
from calc.architectures.llama import attention, decoder, rms_norm
from calc.architectures.mixtral import jitter, local_experts
from calc.spec import LayerGroup, LinearAttention, ModelSpec, Norm, Residual


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' MiniMaxConfig: 8 key-value heads, every other layer softmax attention from the first
    on, chunks of 256 tokens. A window only hides what is cached all the same.

    What a block adds to is what its norm gives; both parts have factors of their own.
    """
    n_layers, d_model = cfg.layers("num_hidden_layers"), cfg.size("hidden_size")
    n_heads = cfg.size("num_attention_heads")
    cfg.only("hidden_act", "silu", why="lightning attention's feature map")
    norm = rms_norm(cfg, 1e-5)
    lightning = LinearAttention(
        n_heads=n_heads,
        d_head=d_head(cfg, d_model, n_heads),
        fused=True,
        feature_map="silu",
        decay=True,
        by_depth=True,
        norm=Norm(eps=1e-6),
        gate=True,
        chunk=cfg.size("block_size", absent=256),
    )
    window = cfg.size("sliding_window", absent=None, null=None)
    full = attention(cfg, kv_absent=8, d_head_null=None, theta=1e6, masked_window=window)
    mixers = {"linear": lightning, "full": full}
    channel = local_experts(cfg, jitter(cfg))

    def layer(kind: str) -> LayerGroup:
        return LayerGroup(count=1, mixer=mixers[kind], channel=channel, norm=norm, residual=_residual(cfg, kind))

    kinds = linear_kinds(cfg, n_layers) or ["linear" if i % 2 else "full" for i in range(n_layers)]
    return decoder(cfg, stack(kinds, layer), max_seq_len=131072, norm=norm)


def _residual(cfg: Config, kind: str) -> Residual:
    """The factors of a layer of this kind."""
    return Residual(
        normed=True,
        mixer_kept=cfg.number(f"{kind}_attn_alpha_factor", absent=1.0),
        mixer_added=cfg.number(f"{kind}_attn_beta_factor", absent=1.0),
        channel_kept=cfg.number("mlp_alpha_factor", absent=1.0),
        channel_added=cfg.number("mlp_beta_factor", absent=1.0),
    )
