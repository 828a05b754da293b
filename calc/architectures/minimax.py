"""MiniMax-Text-01 (arXiv:2501.08313): lightning attention with softmax attention between, and experts in all layers."""

from __future__ import annotations

from calc.architectures.common import d_head, stack
from calc.architectures.config import Config
from calc.architectures.llama import attention, decoder, rms_norm
from calc.architectures.mixtral import local_experts
from calc.spec import LayerGroup, LinearAttention, ModelSpec, Norm

_WORDS = {"linear_attention": "linear", "full_attention": "full"}


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' MiniMaxConfig: 8 key-value heads, every other layer softmax attention from the first
    on, chunks of 256 tokens. A window only hides what is cached all the same, and is left out.

    What a layer adds to is what its norm gives, times a factor that has no part here; it costs the same.
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
        norm=Norm(eps=1e-6),
        gate=True,
        chunk=cfg.size("block_size", absent=256),
    )
    mixers = {"linear": lightning, "full": attention(cfg, kv_absent=8, d_head_null=None, theta=1e6)}
    channel = local_experts(cfg)

    def layer(kind: str) -> LayerGroup:
        return LayerGroup(count=1, mixer=mixers[kind], channel=channel, norm=norm)

    words = cfg.words("layer_types", among=tuple(_WORDS), length=n_layers, absent=None, null=None)
    kinds = ["linear" if i % 2 else "full" for i in range(n_layers)] if words is None else [_WORDS[w] for w in words]
    return decoder(cfg, stack(kinds, layer), max_seq_len=131072, norm=norm)
