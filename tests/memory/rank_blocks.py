"""Small blocks that ranks divide, and small models of them."""

from __future__ import annotations

from typing import Any

from calc.spec import (
    Attention,
    CompressedAttention,
    Compressor,
    DeltaNet,
    Embedding,
    EntryIndexer,
    GatedConvolution,
    Indexer,
    Kda,
    LayerGroup,
    LinearAttention,
    Mamba,
    Mamba2,
    Mla,
    Mlp,
    ModelSpec,
    Node,
    Norm,
    QkNorm,
    RgLru,
    Rope,
    Rwkv4,
    Rwkv7,
    Tower,
)

DELTA: dict[str, Any] = {"d_key": 6, "d_value": 5, "chunk": 5}
STATE: dict[str, Any] = {"d_head": 6, "d_state": 5, "chunk": 5}
SCALES = (0.5, 1.0, 1.0, 2.0, 1.0)
NARROW: dict[str, Any] = {
    "n_heads": 16,
    "d_head": 8,
    "q_rank": 6,
    "window": 7,
    "n_out_groups": 8,
    "out_rank": 3,
    "rope": Rope(fraction=0.5, interleaved=True),
}
CHOOSING = Indexer(n_heads=3, d_head=6)
INDEXER = EntryIndexer(n_heads=2, d_head=6, top_k=2)
GROWING = Indexer(n_heads=3, d_head=6, q_norm=Norm(), head_temperature=True)
LOW: dict[str, Any] = {"n_heads": 8, "d_head": 5, "decay_rank": 4, "rate_rank": 3, "gate_rank": 2, "chunk": 5}
CHANNELS = (
    GatedConvolution(),
    GatedConvolution(d_inner=24, d_conv=4, bias=True),
    Rwkv4(),
    Rwkv4(d_inner=24),
    Mamba(dt_rank=3, d_state=5),
    Mamba(d_inner=24, dt_rank=3, d_state=5, bias=True, conv_bias=False, inner_norm=Norm()),
    RgLru(d_inner=24, n_blocks=8),
)
LIGHTNING: dict[str, Any] = {"fused": True, "feature_map": "silu", "decay": True, "by_depth": True, "gate": True}
LINEAR = (
    LinearAttention(n_heads=16, chunk=5),
    LinearAttention(n_heads=16, d_head=3, causal=False, qkv_bias=True, out_bias=True),
    LinearAttention(n_heads=16, d_head=3, norm=Norm(), chunk=5, **LIGHTNING),
    LinearAttention(n_heads=16, d_head=3, norm=Norm(kind="layernorm", bias=True), fused=True),
    LinearAttention(n_heads=16, d_head=3, norm=Norm(unit_offset=True)),
)
BLOCKS = (
    Mamba2(n_heads=16, n_groups=8, **STATE),
    Mamba2(n_heads=8, **STATE),
    Mamba2(n_heads=8, **STATE, norm=None, scales=SCALES),
    Mamba2(n_heads=8, **STATE, gate="after", norm=Norm(affine=False), dt_max=0.3),
    DeltaNet(n_key_heads=8, n_value_heads=16, **DELTA),
    DeltaNet(n_key_heads=16, n_value_heads=16, fused=True, double_rate=True, **DELTA),
    Kda(n_heads=8, d_head=5, chunk=5),
    Kda(n_heads=8, d_head=5, chunk=5, bottleneck=False, bound=-2.0),
    Attention(n_heads=16, n_kv_heads=2, d_head=4, fused=True),
    CompressedAttention(**NARROW),
    CompressedAttention(**NARROW, compressor=Compressor(rate=5)),
    CompressedAttention(**NARROW, compressor=Compressor(rate=4, overlap=True, indexer=INDEXER)),
    Rwkv7(**LOW, value_rank=None),
    *CHANNELS,
    Attention(n_heads=16, n_kv_heads=8, d_head=4, window=7),
    *LINEAR,
    Attention(n_heads=16, n_kv_heads=8, d_head=4, qk_norm=QkNorm(span="all"), inner_norm=Norm()),
    Attention(n_heads=16, n_kv_heads=2, d_head=4, qk_norm=QkNorm(span="all", norm=Norm(unit_offset=True))),
    Attention(n_heads=16, n_kv_heads=8, d_head=4, qk_norm=QkNorm(span="heads", norm=Norm(kind="layernorm"))),
    Attention(n_heads=16, n_kv_heads=2, d_head=4, qk_norm=QkNorm(span="heads", norm=Norm(unit_offset=True))),
    Mla(n_heads=16, q_rank=6, kv_rank=5, d_nope=4, d_rope=2, d_value=3),
    Mla(n_heads=16, kv_rank=5, d_nope=4, d_rope=2, d_value=3, head_temperature=True, top_k=4, indexer=GROWING),
    Mla(n_heads=16, kv_rank=5, d_nope=4, d_rope=None, d_value=3, head_temperature=True, position="none"),
    Mla(
        n_heads=16,
        q_rank=6,
        kv_rank=5,
        d_nope=4,
        d_rope=None,
        d_value=3,
        position="none",
        indexer=CHOOSING,
        pool=2,
        top_k=4,
    ),
)


def name_of(block: Node) -> str:
    return f"{block.kind}-{'fused' if getattr(block, 'fused', False) else BLOCKS.index(block)}"  # type: ignore[attr-defined]


def of(mixer: Any) -> ModelSpec:
    """A small model of two layers; of RWKV-7, behind the one whose values they take."""
    if not isinstance(mixer, Rwkv7):
        return ModelSpec(d_model=16, vocab_size=32, layers=(LayerGroup(count=2, mixer=mixer, channel=Mlp(d_ff=32)),))
    channel, later = Mlp(d_ff=32, activation="relu2", shift=True), mixer.model_copy(update={"value_rank": 3})
    first = LayerGroup(name="first", count=1, mixer=mixer, channel=channel)
    return ModelSpec(
        d_model=16, vocab_size=32, layers=(first, LayerGroup(name="later", count=2, mixer=later, channel=channel))
    )


def merged() -> ModelSpec:
    """A layer that reads its own tokens and an encoder's with the same matrices."""
    mixer = Attention(n_heads=16, n_kv_heads=8, d_head=4, window=7, merged=True, qk_norm=QkNorm())
    layer = LayerGroup(count=1, mixer=mixer, channel=Mlp(d_ff=32))
    around = layer.model_copy(update={"mixer": Attention(n_heads=16, n_kv_heads=8, d_head=4, causal=False)})
    encoder = Tower(name="encoder", d_model=32, embedding=Embedding(shared=True), layers=(around,))
    return ModelSpec(d_model=32, vocab_size=64, layers=(layer,), encoder=encoder)
