"""Hypothesis strategies for random descriptions of models that could be built."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from calc.spec import (
    AltUp,
    Attention,
    BandAttention,
    BlockAttention,
    BlockIndexer,
    CompressedAttention,
    Compressor,
    Convolved,
    DeepRouter,
    DeltaNet,
    Embedding,
    EntryIndexer,
    GateClamp,
    GatedConvolution,
    Head,
    HeadExperts,
    Indexer,
    Kda,
    LayerGroup,
    LinearAttention,
    Mamba,
    Mamba2,
    Mla,
    Mlp,
    ModelSpec,
    Moe,
    NGrams,
    Norm,
    PerLayerInputs,
    QkNorm,
    RgLru,
    Rwkv4,
    Shaw,
    StreamMixing,
    Tower,
)

small = st.integers(1, 64)


@st.composite
def norms(draw: st.DrawFn) -> Norm:
    kind = draw(st.sampled_from(["layernorm", "rmsnorm"]))
    affine = draw(st.booleans())
    return Norm(kind=kind, affine=affine, bias=affine and kind == "layernorm" and draw(st.booleans()))


@st.composite
def attentions(draw: st.DrawFn, n_heads: int) -> Attention:
    if draw(st.booleans()) and draw(st.booleans()):
        return draw(routed_heads(n_heads) | masked_by_values(n_heads) | convolved(n_heads))
    position = draw(st.sampled_from(["rope", "alibi", "none"]))
    shaw = st.builds(Shaw, max_distance=small, ahead=st.none() | small, values=st.booleans())
    return Attention(
        n_heads=n_heads,
        n_kv_heads=draw(st.none() | st.sampled_from([n for n in range(1, n_heads + 1) if n_heads % n == 0])),
        d_head=draw(st.none() | small.map(lambda half: 2 * half)),
        qkv_bias=draw(st.booleans()),
        out_bias=draw(st.booleans()),
        fused=draw(st.booleans()),
        qk_norm=draw(st.none() | st.builds(QkNorm, norm=norms(), span=st.sampled_from(["head", "heads", "all"]))),
        window=draw(st.none() | st.integers(1, 300)),
        softcap=draw(st.none() | st.just(50.0)),
        sinks=draw(st.booleans()),
        position=position,
        shaw=draw(st.none() | shaw) if position == "none" else None,
    )


@st.composite
def routed_heads(draw: st.DrawFn, n_heads: int) -> Attention:
    """Attention whose queries and outputs are experts'."""
    n_kv_heads = draw(st.sampled_from([n for n in range(1, n_heads + 1) if n_heads % n == 0]))
    top_k = n_heads // n_kv_heads
    return Attention(
        n_heads=n_heads,
        n_kv_heads=n_kv_heads,
        d_head=draw(small.map(lambda half: 2 * half)),
        out_bias=draw(st.booleans()),
        window=draw(st.none() | st.integers(1, 300)),
        experts=HeadExperts(n_experts=draw(st.integers(top_k, 16)), top_k=top_k),
    )


@st.composite
def masked_by_values(draw: st.DrawFn, n_heads: int) -> Attention:
    """Attention where the values of keys make a mask."""
    return Attention(
        n_heads=n_heads,
        n_kv_heads=draw(st.sampled_from([n for n in range(1, n_heads + 1) if n_heads % n == 0])),
        d_head=draw(small.map(lambda half: 2 * half)),
        qkv_bias=draw(st.booleans()),
        window=draw(st.none() | st.integers(1, 300)),
        dynamic_mask=draw(st.integers(1, 40)),
    )


@st.composite
def convolved(draw: st.DrawFn, n_heads: int) -> Attention:
    """Attention whose queries and keys pass convolutions, and half of whose values are the token's before."""
    return Attention(
        n_heads=n_heads,
        n_kv_heads=draw(st.sampled_from([n for n in range(1, n_heads + 1) if n_heads % n == 0])),
        d_head=draw(small.map(lambda half: 2 * half)),
        qkv_bias=draw(st.booleans()),
        out_bias=draw(st.booleans()),
        window=draw(st.none() | st.integers(1, 300)),
        convolved=Convolved(d_conv=draw(st.integers(1, 4)), d_head_conv=draw(st.integers(2, 4))),
    )


@st.composite
def recurrent(
    draw: st.DrawFn, n_heads: int
) -> LinearAttention | DeltaNet | Kda | GatedConvolution | Mamba | Mamba2 | RgLru | Rwkv4:
    """A mixer with a state in place of keys and values."""
    kinds = [LinearAttention, DeltaNet, Kda, GatedConvolution, Mamba, Mamba2, RgLru, Rwkv4]
    kind, flag = draw(st.sampled_from(kinds)), st.booleans()
    sizes = {"d_conv": draw(st.integers(1, 5)), "chunk": draw(st.integers(1, 9))}
    if kind is LinearAttention:
        options = {"feature_map": draw(st.sampled_from(["elu", "silu"])), "decay": draw(flag), "gate": draw(flag)}
        options |= {"qkv_bias": draw(flag), "out_bias": draw(flag), "fused": draw(flag)}
        options |= {"norm": draw(st.none() | norms()), "d_head": draw(st.none() | small)}
        return LinearAttention(n_heads=n_heads, chunk=sizes["chunk"], **options)
    if kind is RgLru:
        return RgLru(d_inner=n_heads * draw(small), n_blocks=n_heads, d_conv=sizes["d_conv"])
    if kind is Rwkv4:
        return Rwkv4(d_inner=draw(st.none() | small))
    if kind is GatedConvolution:
        return GatedConvolution(d_inner=draw(st.none() | small), d_conv=sizes["d_conv"], bias=draw(flag))
    if kind is Kda:
        return Kda(n_heads=n_heads, d_head=draw(small), **sizes)
    if kind is DeltaNet:
        widths = {"d_key": draw(small), "d_value": draw(small), "fused": draw(flag)}
        return DeltaNet(n_key_heads=n_heads, n_value_heads=n_heads * draw(st.integers(1, 3)), **sizes, **widths)
    biases = {"bias": draw(flag), "conv_bias": draw(flag), "d_state": draw(small)}
    if kind is Mamba2:
        groups = draw(st.integers(1, 3))
        biases |= {"norm": draw(st.none() | st.just(Norm())), "gate": draw(st.sampled_from(["before", "after"]))}
        return Mamba2(n_heads=groups * n_heads, d_head=draw(small), n_groups=groups, **sizes, **biases)
    widths = {"d_inner": draw(st.none() | small), "dt_rank": draw(st.none() | small)}
    return Mamba(d_conv=sizes["d_conv"], inner_norm=draw(st.none() | norms()), **widths, **biases)


@st.composite
def latent(draw: st.DrawFn, n_heads: int) -> Mla | CompressedAttention:
    """Attention over latents or over compressed entries, with indexers and without."""
    indexed, even = draw(st.booleans()), small.map(lambda half: 2 * half)
    # Widths that the rate divides: a token's share of an entry is then a whole number.
    index = {"n_heads": draw(small), "d_head": 4 * draw(st.integers(32, 40))}
    if draw(st.booleans()):
        widths = {"kv_rank": draw(small), "d_nope": draw(small), "d_rope": draw(even), "d_value": draw(small)}
        apart = indexed and draw(st.booleans())
        index |= {"last": draw(st.booleans()), "head_temperature": draw(st.booleans())}
        index |= {"q_norm": draw(norms()) if apart else None}
        q_rank = draw(small if indexed and not apart else st.none() | small)
        pool = draw(st.none() | st.integers(1, 4)) if indexed else None
        top_k = draw(small) * (pool or 1) if indexed else None
        indexer = Indexer(**index) if indexed else None
        if draw(st.booleans()):
            widths |= {"position": "none", "d_rope": draw(st.none() | even)}
        flags = {name: draw(st.booleans()) for name in ("bias", "gate", "sinks", "head_temperature")}
        return Mla(n_heads=n_heads, q_rank=q_rank, top_k=top_k, pool=pool, indexer=indexer, **flags, **widths)
    chooser = EntryIndexer(top_k=draw(small), **index) if indexed else None
    made = Compressor(rate=draw(st.sampled_from([1, 2, 4])), overlap=draw(st.booleans()), indexer=chooser)
    ranks = {"q_rank": draw(small), "out_rank": draw(small), "n_out_groups": n_heads, "window": draw(small)}
    return CompressedAttention(
        n_heads=n_heads, d_head=4 * draw(small), compressor=draw(st.none() | st.just(made)), **ranks
    )


clamps = st.builds(GateClamp, limit=st.none() | st.just(0.5)).flatmap(
    lambda clamp: st.booleans().map(lambda activated: clamp.model_copy(update={"activated": activated}))
)
"""What cuts the halves of gated blocks, ahead of the activation or behind it."""


@st.composite
def channels(draw: st.DrawFn) -> Mlp | Moe:
    if draw(st.booleans()):
        gated = draw(st.booleans())
        clamp = draw(st.none() | clamps) if gated else None
        return Mlp(
            d_ff=draw(st.none() | small),
            gated=gated,
            bias=draw(st.booleans()),
            fused=gated and draw(st.booleans()),
            activation="gelu" if clamp is None else "silu",
            clamp=clamp,
        )
    n_experts = draw(st.integers(1, 16))
    d_shared, gated = draw(st.none() | small), draw(st.booleans())
    if draw(st.booleans()) and draw(st.booleans()):
        router = DeepRouter(d_router=draw(small), norm=draw(norms()))
        one = {"n_experts": n_experts, "top_k": 1, "d_expert": draw(small), "renormalize": False}
        return Moe(**one, d_shared=d_shared, skips=draw(st.booleans()), deep_router=draw(st.none() | st.just(router)))
    return Moe(
        n_experts=n_experts,
        top_k=draw(st.integers(1, n_experts)),
        d_expert=draw(small),
        d_shared=d_shared,
        shared_gate=d_shared is not None and draw(st.booleans()),
        gated=gated,
        clamp=draw(st.none() | clamps) if gated else None,
        shared_clamp=draw(st.booleans() | clamps) if gated else True,
        bias=draw(st.booleans()),
        shared_bias=draw(st.none() | st.booleans()) if d_shared is not None else None,
        router_bias=draw(st.booleans()),
        sum_bias=draw(st.booleans()),
        capacity_factor=draw(st.none() | st.sampled_from([0.7, 1.0, 1.25])),
    )


@st.composite
def specs(draw: st.DrawFn, mixers: Callable[[int], st.SearchStrategy[Any]] = attentions) -> ModelSpec:
    """One to three groups of layers of any structure; d_model is a multiple of every group's heads."""
    heads = draw(st.lists(st.sampled_from([1, 2, 3, 4, 6, 12]), min_size=1, max_size=3))
    placements = ["pre", "post", "output", "sandwich", "parallel", "parallel-two-norms"]
    groups = tuple(
        LayerGroup(
            name=name,
            count=draw(st.integers(1, 9)),
            mixer=draw(mixers(n)),
            channel=draw(channels()),
            norm=draw(norms()),
            placement=placement,
            kept_scale=placement == "pre" and (shifted or draw(st.booleans())),
            block_scale=shifted,
            shifted=shifted,
        )
        for name, n in zip("abc", heads, strict=False)
        for placement in (draw(st.sampled_from(placements)),)
        for shifted in (placement == "pre" and draw(st.booleans()),)
    )
    embedding = Embedding(
        d_embed=draw(st.none() | small),
        n_positions=draw(st.none() | small),
        norm=draw(st.none() | norms()),
        norm_of=draw(st.sampled_from(["sum", "tokens"])),
        weighed=draw(st.booleans()),
    )
    tied = draw(st.booleans())
    return ModelSpec(
        d_model=24 * draw(st.integers(1, 10)),
        vocab_size=draw(st.integers(1, 1000)),
        embedding=embedding,
        layers=groups,
        final_norm=draw(st.none() | norms()),
        head=Head(tied=tied, bias=draw(st.booleans()), own_width=not tied and draw(st.booleans())),
    )


@st.composite
def in_blocks(draw: st.DrawFn) -> ModelSpec:
    """A model whose layers all attend in blocks, to sums of tokens or without."""
    spec = draw(specs())
    mixer = BlockAttention(
        n_heads=draw(st.integers(1, 4)),
        d_head=draw(small),
        block=draw(st.integers(1, 30)),
        summary=draw(st.none() | st.integers(1, 30)),
        norm=draw(norms()),
    )
    layers = tuple(group.model_copy(update={"mixer": mixer}) for group in spec.layers)
    return spec.model_copy(update={"layers": layers})


@st.composite
def alternating(draw: st.DrawFn) -> ModelSpec:
    """A model whose layers work on one of several streams, with what stands beside that in Gemma 3n or without."""
    spec = draw(specs())
    laurel, sparsity = draw(st.none() | small), draw(st.sampled_from([0.0, 0.9]))
    placement = draw(st.sampled_from(["pre", "sandwich"]))
    mlp = Mlp(d_ff=draw(small), gated=True, activation="silu", sparsity=sparsity)
    own = {"laurel": laurel, "placement": placement, "channel": mlp}
    n = draw(st.integers(2, 5))
    inputs = PerLayerInputs(vocab_size=spec.vocab_size, d_per_layer=draw(small))
    changed = {
        "layers": tuple(group.model_copy(update=own) for group in spec.layers),
        "altup": AltUp(n=n, active=draw(st.integers(0, n - 1))),
        "per_layer": draw(st.none() | st.just(inputs)),
    }
    return spec.model_copy(update=changed)


@st.composite
def streamed(draw: st.DrawFn) -> ModelSpec:
    """A model of several residual streams that are read value by value, whose attention reads what an indexer chooses,
    with n-grams ahead of some layers and without."""
    spec = draw(specs())
    groups = []
    for group in spec.layers:
        rate, heads = draw(st.integers(1, 6)), draw(st.sampled_from([1, 2, 4]))
        indexer = BlockIndexer(n_heads=draw(small), d_head=64, rate=rate, budget=rate * draw(st.integers(1, 9)))
        sizes = {
            "n_heads": heads,
            "n_kv_heads": draw(st.sampled_from([1, heads])),
            "d_head": 2 * draw(st.integers(1, 32)),
        }
        mixer = Attention(**sizes, gate=draw(st.booleans()), qkv_bias=draw(st.booleans()), indexer=indexer)
        n, each = draw(st.integers(2, 4)), draw(st.integers(1, 2))
        parts = tuple(draw(st.lists(st.integers(1, 30), min_size=each * (n - 1), max_size=each * (n - 1))))
        ngrams = NGrams(
            rows=sum(parts) + draw(st.integers(0, 5)),
            d_ngram=len(parts) * draw(small),
            d_conv=draw(st.integers(2, 5)),
            n=n,
            heads=parts,
            multipliers=(3,) * n,
            end=0,
        )
        own = dict.fromkeys(("kept_scale", "block_scale", "shifted"), False) | {
            "placement": "pre",
            "mixer": mixer,
            "ngrams": draw(st.none() | st.just(ngrams)),
        }
        groups.append(group.model_copy(update=own))
    mixing = StreamMixing(rank=draw(small))
    streams = {"n_streams": draw(st.integers(1, 4)), "stream_mixing": mixing}
    return spec.model_copy(update={"layers": tuple(groups), **streams})


@st.composite
def in_bands(draw: st.DrawFn) -> ModelSpec:
    """A model whose layers attend within bands, on texts that are filled up to whole chunks."""
    spec = draw(specs())
    widest = draw(st.sampled_from([1, 2, 3, 4, 5, 8, 12]))
    reaches = st.sampled_from([reach for reach in range(1, widest + 1) if widest % reach == 0])
    layers = tuple(
        group.model_copy(
            update={"mixer": BandAttention(n_heads=draw(st.integers(1, 4)), d_head=draw(small), reach=draw(reaches))}
        )
        for group in spec.layers
    )
    embedding = spec.embedding.model_copy(update={"multiple": 2 * widest, "n_positions": None})
    return spec.model_copy(update={"layers": layers, "embedding": embedding})


@st.composite
def late(draw: st.DrawFn) -> ModelSpec:
    """A model of pairs of layers, behind the second of which is added what experts of the first give."""
    spec, pairs = draw(specs()), draw(st.integers(1, 3))
    n, each = draw(st.integers(1, 8)), draw(st.integers(1, 2))
    # As many experts more that give back what they read: every second visit is to one of them.
    zeros = {"n_zero": n, "top_k": 2 * min(each, n)} if draw(st.booleans()) else {"top_k": draw(st.integers(1, n))}
    experts = Moe(n_experts=n, d_expert=draw(small), d_shared=draw(small), correction=True, late=True, **zeros)
    plain = {"placement": "pre", "shared": False, "macaron": False, "count": pairs}
    first, second = (
        spec.layers[0].model_copy(update=plain | {"name": name, "channel": channel})
        for name, channel in (("first", experts), ("second", Mlp(d_ff=draw(small))))
    )
    schedule = ("first", "second") * pairs
    return spec.model_copy(update={"layers": (first, second), "schedule": schedule})


@st.composite
def merged(draw: st.DrawFn) -> ModelSpec:
    """A decoder whose layers read an encoder's vectors beside its own tokens, and an encoder with windows to both
    sides, which looks tokens up in the same table."""
    spec, heads = draw(specs()), draw(st.sampled_from([1, 2, 4]))
    sizes = {"n_heads": heads, "n_kv_heads": draw(st.sampled_from([1, heads])), "d_head": 2 * draw(small)}
    sizes |= {"qkv_bias": draw(st.booleans()), "out_bias": draw(st.booleans())}
    norm = draw(st.none() | st.builds(QkNorm, norm=norms()))
    window = draw(st.none() | st.integers(2, 30))
    mixer = Attention(**sizes, qk_norm=norm, window=window, merged=True)
    around = Attention(**sizes, causal=False, window=window, lopsided=window is not None and draw(st.booleans()))
    embedding = Embedding(own_token=draw(st.none() | st.just(0)), scale=draw(st.sampled_from([1.0, 2.0])))
    layer = spec.layers[0].model_copy(update={"placement": "pre", "mixer": around})
    shared = embedding.model_copy(update={"shared": True})
    encoder = Tower(name="encoder", d_model=spec.d_model, embedding=shared, layers=(layer,))
    layers = tuple(each.model_copy(update={"placement": "pre", "mixer": mixer}) for each in spec.layers)
    return spec.model_copy(update={"embedding": embedding, "layers": layers, "encoder": encoder})
