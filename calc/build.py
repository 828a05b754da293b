"""From a description to the tree of ops that runs it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from calc.blocks import CHANNELS, FRONTS, MIXERS
from calc.blocks.attention import cross_attention
from calc.blocks.embedding import head, projection
from calc.blocks.linear import norm
from calc.load import Load
from calc.op import Op, Part
from calc.sizes import Size
from calc.spec import Embedding, LayerGroup, ModelSpec, Stack, Tower

Body = tuple[Part | Op, ...]


def build(spec: ModelSpec, load: Load) -> Part:
    """The tree of `spec` under `load`. Sizes in either may be ints, sympy expressions or float64 arrays."""
    body: list[Part | Op] = []
    source: tuple[Size, Size] | None = None
    if spec.vision is not None:
        body.append(_tower(spec.vision, spec.vocab_size, replace(load, batch=load.images, context=0, scores="full"))[0])
    if spec.encoder is not None:
        # Decoding finds the encoder's work done: no sequence passes it, but its result has its length all the same.
        length = _source_length(spec.encoder, load)
        reads = replace(load, batch=0 if load.decode else load.batch, seq=length, context=0)
        encoder, length = _tower(spec.encoder, spec.vocab_size, reads)
        body.append(encoder)
        source = (spec.encoder.d_model, length)
    main, length = _stack(spec, spec.vocab_size, load, source)
    body += main
    after = replace(load, seq=length)
    if spec.head is not None and isinstance(spec.embedding, Embedding):
        body.append(head(spec.head, spec.embedding, spec.vocab_size, spec.d_model, after))
    return Part("", tuple(body))


def _source_length(encoder: Tower, load: Load) -> Size:
    """How much the encoder reads for each sequence."""
    if load.source is not None:
        return load.source
    own = getattr(encoder.embedding, "n_frames", None)
    if own is not None:
        return own
    return load.seq if load.usual_source is None else load.usual_source


def _tower(tower: Tower, vocab_size: Size, load: Load) -> tuple[Part, Size]:
    """A tower as one part, and the number of vectors it gives for each sequence."""
    body, length = _stack(tower, vocab_size, load, None)
    return Part(tower.name, body, component="vision" if tower.name == "vision" else None), length


def _stack(spec: Stack, vocab_size: Size, load: Load, source: tuple[Size, Size] | None) -> tuple[Body, Size]:
    """Front, layers, final norm and heads, and the number of vectors a sequence leaves the layers with.

    source: width and number of the vectors that cross-attention reads.
    """
    front, length = FRONTS[type(spec.embedding)](spec.embedding, vocab_size, spec.d_model, load)
    load = replace(load, seq=length)
    body: list[Part | Op] = [front]
    several = len(spec.layers) > 1
    for group in spec.layers:
        body.append(
            Part(
                f"layers.{{{group.name}}}" if several else "layers.{}",
                _layer(group, spec.d_model, load, source),
                calls=group.count,
                copies=1 if group.shared else group.count,
                layer=True,
                indices=_indices(spec, group),
            )
        )
    if spec.final_norm is not None:
        body.append(norm("final_norm", spec.final_norm, (spec.d_model,)))
    body += [projection(each, spec.d_model, load) for each in spec.heads]
    return tuple(body), length


def _layer(group: LayerGroup, d_model: Size, load: Load, source: tuple[Size, Size] | None) -> Body:
    """One layer's ops in the order they run, norms where `placement` puts them."""
    blocks: list[tuple[str, Part]] = []
    if group.mixer is not None:
        mixer = MIXERS[type(group.mixer)](group.mixer, d_model, load)
        blocks.append((f"{mixer.name}_norm", mixer))
    if group.cross is not None and source is not None:
        blocks.append(("cross_attention_norm", cross_attention(group.cross, d_model, source[0], load, source[1])))
    if group.channel is not None:
        blocks.append(("channel_norm", CHANNELS[type(group.channel)](group.channel, d_model, load.tokens)))
    return _normed(group, blocks, d_model)


def _normed(group: LayerGroup, blocks: Sequence[tuple[str, Part]], d_model: Size) -> Body:
    """(name of its norm, block) pairs with the norms where `placement` puts them."""

    def normed(name: str) -> Op:
        return norm(name, group.norm, (d_model,))

    def after(name: str) -> str:
        return name.replace("_norm", "_post_norm")

    body: list[Part | Op] = []
    if group.placement == "parallel-two-norms":
        body += [normed(name) for name, _ in blocks]
    elif group.placement == "parallel":
        body.append(normed(blocks[0][0]))
    for name, block in blocks:
        match group.placement:
            case "pre":
                body += [normed(name), block]
            case "post":
                body += [block, normed(name)]
            case "output":
                body += [block, normed(after(name))]
            case "sandwich":
                body += [normed(name), block, normed(after(name))]
            case _:
                body.append(block)
    return tuple(body)


def _indices(spec: Stack, group: LayerGroup) -> tuple[int, ...] | None:
    """The numbers of this group's layers; None where there is one group, or where sizes are no ints."""
    if len(spec.layers) == 1:
        return None
    if spec.schedule is not None:
        return tuple(i for i, name in enumerate(spec.schedule) if name == group.name)
    if not all(isinstance(g.count, int) for g in spec.layers):
        return None
    start = 0
    for other in spec.layers:
        if other.name == group.name:
            break
        start += other.count
    return tuple(range(start, start + group.count))
