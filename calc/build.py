"""From a description to the tree of ops that runs it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from calc.blocks import CHANNELS, FRONTS, MIXERS
from calc.blocks.adapters import adapted, with_prompt
from calc.blocks.attention import cross_attention, relative_bias
from calc.blocks.conformer import convolution_module
from calc.blocks.contrast import contrast
from calc.blocks.detection import from_zeros
from calc.blocks.embedding import head, projection
from calc.blocks.linear import block_scale, norm, residual
from calc.blocks.mtp import mtp
from calc.blocks.patches import grid
from calc.blocks.per_layer import per_layer_block, per_layer_inputs
from calc.blocks.pooling import attention_pool
from calc.blocks.projector import projector
from calc.blocks.shared_block import shared_block
from calc.blocks.streams import collapse, connection
from calc.blocks.token_shift import shifted
from calc.errors import Refused
from calc.gradients import marked
from calc.load import Load
from calc.op import Op, Part
from calc.sizes import Size
from calc.spec import Attention, Embedding, Frames, LayerGroup, Mlp, ModelSpec, Patches, Queries, Stack, Tower

Body = tuple[Part | Op, ...]


def build(spec: ModelSpec, load: Load) -> Part:
    """The tree of `spec` under `load`. Sizes in either may be ints, sympy expressions or float64 arrays."""
    body: list[Part | Op] = []
    source: tuple[Size, Size] | None = None
    if spec.vision is not None:
        # Decoding finds the pictures read, as it finds an encoder's input.
        pictures = replace(load, batch=0 if load.decode else load.images, context=0, scores="full")
        body.append(_tower(spec.vision, spec.d_model, spec.vocab_size, pictures)[0])
    if spec.encoder is not None:
        # Decoding finds the encoder's work done: no sequence passes it, but its result has its length all the same.
        length = _source_length(spec.encoder, load)
        reads = replace(load, batch=0 if load.decode else load.batch, seq=length, context=0)
        encoder, length = _tower(spec.encoder, spec.d_model, spec.vocab_size, reads)
        body.append(encoder)
        source = (spec.encoder.d_model, length)
    main, length = _stack(spec, spec.vocab_size, load, source)
    body += main
    after = replace(load, seq=length)
    if spec.head is not None and isinstance(spec.embedding, Embedding):
        body.append(head(spec.head, spec.embedding, spec.vocab_size, spec.d_model, after))
    if load.mtp:
        if spec.mtp is None:
            raise Refused("mtp", "a model described with modules that predict further tokens", spec.name)
        group = LayerGroup.model_construct(mixer=spec.mtp.mixer, channel=spec.mtp.channel, norm=spec.mtp.norm)
        layer = _layer(group, spec.d_model, after, None)
        body += mtp(spec.mtp, layer, spec.head, spec.vocab_size, spec.d_model, after)
    if spec.contrast is not None:
        body.append(contrast(spec.contrast, load))
    tree = Part("", tuple(body))
    if spec.adapter is not None:
        return marked(adapted(tree, spec), spec)
    return from_zeros(tree) if isinstance(spec.embedding, Queries) else tree


def source_length(spec: ModelSpec, seq: Size) -> Size | None:
    """Tokens or frames that an encoder reads beside `seq` tokens where nothing else is asked; None without an encoder
    of text or sound."""
    if spec.encoder is None or not isinstance(spec.encoder.embedding, Embedding | Frames):
        return None
    return _source_length(spec.encoder, Load(seq=seq))


def vectors_read(spec: ModelSpec, seq: Size) -> Size:
    """Vectors that the layers take for each sequence: `seq`, or as many as a picture, or sound of one length, gives."""
    if spec.reads_tokens or getattr(spec.embedding, "n_frames", 1) is None:
        return seq
    return FRONTS[type(spec.embedding)](spec.embedding, spec.vocab_size, spec.d_model, Load(seq=seq))[1]


def _source_length(encoder: Tower, load: Load) -> Size:
    """How much the encoder reads for each sequence."""
    if load.source is not None:
        return load.source
    own = getattr(encoder.embedding, "n_frames", None)
    if own is not None:
        return own
    return load.seq if load.usual_source is None else load.usual_source


def _tower(tower: Tower, d_reader: Size, vocab_size: Size, load: Load) -> tuple[Part, Size]:
    """A tower as one part, and the number of vectors it gives for each sequence, to a stack of width d_reader."""
    body, length = _stack(tower, vocab_size, load, None)
    of_picture = grid(tower.embedding, load) if isinstance(tower.embedding, Patches) else None
    inner = replace(load, seq=length)
    body += tuple(projector(each, tower.d_model, d_reader, inner, of_picture) for each in tower.projectors)
    if tower.pool is not None:
        body += (attention_pool(tower.pool, tower.d_model, inner),)
    return Part(tower.name, body, component="vision" if tower.name == "vision" else None), length


def _stack(spec: Stack, vocab_size: Size, load: Load, source: tuple[Size, Size] | None) -> tuple[Body, Size]:
    """Front, layers, final norm and heads, and the number of vectors a sequence leaves the layers with.

    source: width and number of the vectors that cross-attention reads.
    """
    front, length = FRONTS[type(spec.embedding)](spec.embedding, vocab_size, spec.d_model, load)
    vectors = getattr(spec.embedding, "vectors", 1)
    load = replace(load, seq=length, context=vectors * load.context, vectors=vectors)
    load = with_prompt(spec, load)
    _whole_squares(spec, load)
    body: list[Part | Op] = [front]
    if spec.relative_bias is not None:
        keys = load.context + load.seq
        body.append(relative_bias(*spec.relative_bias, load.seq, keys))
    if spec.per_layer is not None:
        n_layers = sum(group.count for group in spec.layers)
        body.append(per_layer_inputs(spec.per_layer, spec.layers[0].norm, spec.d_model, load.tokens, n_layers))
    several = len(spec.layers) > 1
    for group in spec.layers:
        body.append(
            Part(
                f"layers.{{{group.name}}}" if several else "layers.{}",
                _layer(group, spec.d_model, load, source, joined=spec.n_streams is None) + _beside(spec, group, load),
                calls=group.count,
                copies=1 if group.shared else group.count,
                layer=True,
                indices=_indices(spec, group),
            )
        )
    if spec.n_streams is not None:
        body.append(collapse(spec.n_streams, spec.d_model, load.tokens))
    if spec.final_norm is not None:
        body.append(norm("final_norm", spec.final_norm, (spec.d_model,), load.tokens))
    body += [projection(each, spec.d_model, load) for each in spec.heads]
    return tuple(body), load.seq


def _whole_squares(spec: Stack, load: Load) -> None:
    """Refuse a picture that squares of patches, within which attention stays, do not cover without a rest."""
    for group in spec.layers:
        side = group.mixer.squares if isinstance(group.mixer, Attention) else None
        if side is None or not isinstance(spec.embedding, Patches):
            continue
        for patches in grid(spec.embedding, load):
            if isinstance(patches, int) and patches % side:
                raise Refused("image", f"whole squares of {side} x {side} patches", f"{patches} patches along a side")


def _layer(
    group: LayerGroup, d_model: Size, load: Load, source: tuple[Size, Size] | None, *, joined: bool = True
) -> Body:
    """One layer's ops in the order they run, norms where `placement` puts them.

    joined: whether what a block gives is added to what it read; False where residual streams do that in their own way.
    """
    blocks: list[tuple[str, Part]] = []
    channel = None
    if group.channel is not None:
        channel = CHANNELS[type(group.channel)](group.channel, d_model, load.tokens)
        if isinstance(group.channel, Mlp) and group.channel.shift:
            channel = shifted(channel, d_model, load)
    if group.macaron and channel is not None:
        blocks.append(("macaron_norm", replace(channel, name="macaron")))
    if group.mixer is not None:
        mixer = MIXERS[type(group.mixer)](group.mixer, d_model, load)
        blocks.append((f"{mixer.name}_norm", mixer))
    if group.cross is not None and source is not None:
        blocks.append(("cross_attention_norm", cross_attention(group.cross, d_model, source[0], load, source[1])))
    if group.convolution is not None:
        blocks.append(("convolution_norm", convolution_module(group.convolution, d_model, load.tokens)))
    if channel is not None:
        blocks.append(("channel_norm", channel))
    ahead: Body = ()
    if group.shared_block is not None:
        # What the block gives is added to what the mixer's norm reads, and not to the stream.
        made = shared_block(group.shared_block, group.norm, d_model, load)
        ahead = (made, residual("shared_add", load.tokens, d_model, feeds=True))
    last = (norm("out_norm", group.norm, (d_model,), load.tokens),) if group.out_norm else ()
    return ahead + _normed(group, blocks, d_model, load.tokens, joined=joined) + last


def _beside(spec: Stack, group: LayerGroup, load: Load) -> Body:
    """What one layer does besides its blocks: with its residual streams, with an input of its own, where it has any."""
    if spec.n_streams is not None:
        blocks = (("mixer", group.mixer), ("channel", group.channel))
        names = [f"{name}_streams" for name, block in blocks if block is not None]
        return tuple(connection(name, spec.n_streams, spec.d_model, load.tokens) for name in names)
    if spec.per_layer is None:
        return ()
    block = per_layer_block(spec.per_layer, spec.d_model, load.tokens)
    behind = norm("per_layer_post_norm", group.norm, (spec.d_model,), load.tokens, feeds=True)
    return block, behind, residual("per_layer_add", load.tokens, spec.d_model)


def _normed(
    group: LayerGroup, blocks: Sequence[tuple[str, Part]], d_model: Size, tokens: Size, *, joined: bool
) -> Body:
    """(name of its norm, block) pairs with the norms where `placement` puts them, and what adds a block's result to
    the residual stream behind each (of parallel blocks, behind all)."""

    def normed(name: str, *, feeds: bool = False, follows: bool = True) -> Op:
        return norm(name, group.norm, (d_model,), tokens, follows=follows, feeds=feeds)

    def add(name: str, *, feeds: bool = False) -> Body:
        return (residual(name.replace("_norm", "_add"), tokens, d_model, feeds=feeds),) if joined else ()

    def scaled(name: str) -> Body:
        return (block_scale(name.replace("_norm", "_scale"), d_model, tokens),) if group.block_scale else ()

    def after(name: str) -> str:
        return name.replace("_norm", "_post_norm")

    body: list[Part | Op] = []
    if group.placement == "parallel-two-norms":
        body += [normed(name, follows=name == blocks[0][0]) for name, _ in blocks]
    elif group.placement == "parallel":
        body.append(normed(blocks[0][0]))
    for name, block in blocks:
        match group.placement:
            case "pre":
                bare = not group.first_norm and name == blocks[0][0]
                ahead = () if bare else (normed(name),)
                body += [*ahead, block, *scaled(name), *add(name)]
            case "post":
                body += [block, *add(name, feeds=True), normed(name)]
            case "output":
                body += [block, normed(after(name), feeds=True), *add(name)]
            case "sandwich":
                body += [normed(name), block, normed(after(name), feeds=True), *add(name)]
            case _:
                body.append(block)
    if group.placement.startswith("parallel"):
        body.append(residual("add", tokens, d_model, n=1 + len(blocks)))
    return tuple(body)


def _indices(spec: Stack, group: LayerGroup) -> tuple[int, ...] | None:
    """The numbers of this group's layers; None where there is one group, or where sizes are no ints."""
    if len(spec.layers) == 1:
        return None
    if spec.schedule is not None:
        members = tuple(i for i, name in enumerate(spec.schedule) if name == group.name)
        return members[:1] if group.shared else members
    if not all(isinstance(g.count, int) for g in spec.layers):
        return None
    start = 0
    for other in spec.layers:
        if other.name == group.name:
            break
        start += other.count
    return tuple(range(start, start + (1 if group.shared else group.count)))
