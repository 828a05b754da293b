"""One layer: its blocks in the order they run, with the norms, sums and dropout that stand around them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from calc.blocks.adapters import bottleneck
from calc.blocks.altup import correct, predict
from calc.blocks.attention import cross_attention
from calc.blocks.byte_patches import patch_attention
from calc.blocks.conformer import convolution_module, side_convolution
from calc.blocks.denoising import denoising
from calc.blocks.laurel import laurel
from calc.blocks.ngrams import ngrams
from calc.blocks.per_layer import layer_input, own_vector
from calc.blocks.registry import CHANNELS, MIXERS
from calc.blocks.shared_block import shared_block
from calc.blocks.streams import connection, mixture
from calc.blocks.surroundings import Surroundings
from calc.errors import Refused
from calc.sizes import Size, exact_div
from calc.spec import AltUp, LayerGroup, Mla, Mlp, Moe, StreamMixing
from calc.spec.load import Load
from calc.trace.op import Component
from calc.trace.primitives.arithmetic import clamped
from calc.trace.primitives.gather import constant
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


class Block(NamedTuple):
    """One block of a layer. name: of its part; norm: of the names around it. region: what checkpointing calls it.
    ahead: what makes of the stream what is added to it for this block's norm alone, or None. module: as that of its
    part; norm_module: of the norm ahead of it."""

    name: str
    norm: str
    of: Component
    region: str | None
    run: Callable[[Tensor], Tensor]
    scale: float = 1.0
    ahead: Callable[[Tensor], Tensor] | None = None
    module: str | None = None
    norm_module: str | None = None


def layer(t: Trace, group: LayerGroup, x: Tensor, load: Load, around: Surroundings) -> Tensor:
    """x [batch * seq, d_model] -> the same, norms where `placement` puts them."""
    if group.denoising is not None:
        return denoising(t, group.denoising, x, load, around)
    if group.of_patches is not None and around.patches is not None:
        source, keys = around.patches
        x = patch_attention(t, group.of_patches, x, source, (load.batch, load.seq, keys), layers=True)
    blocks, late = list(_blocks(t, group, load, around)), around.late
    around.late = None
    if around.streams is not None:
        x = _in_streams(t, group, blocks, x, load, around, *around.streams)
    elif around.altup is not None:
        return _alternating(t, group, blocks, x, around, around.altup)
    elif group.placement.startswith("parallel"):
        x = _parallel(t, group, blocks, x)
    else:
        x = _in_turn(t, group, blocks, x, around)
    if late is not None:
        x = t.add("late_add", x, late)
    if group.beside is not None:
        x = side_convolution(t, group, x, around)
    if group.cut is not None:
        x = clamped(t, x, constant(t, 1, 2))
    if group.out_norm:
        x = t.norm("out_norm", group.norm, x)
    if around.inputs is not None:
        x = layer_input(t, around.inputs, x, group.norm)
    return t.buffered("out_scale", x) if group.out_scale else x


def run_block(t: Trace, group: LayerGroup, block: Block, x: Tensor, *others: Tensor) -> Tensor:
    """One block as a part, with the dropout on its result."""
    with t.module(block.module), t.part(block.name, x, *others, of=block.of, region=block.region) as out:
        y = block.run(x)
        if block.region in ("mixer", "channel"):
            y = bottleneck(t, y)
        if group.residual_dropout:
            y = t.dropout("dropout", y)
        out.append(y)
    return y


def _blocks(t: Trace, group: LayerGroup, load: Load, around: Surroundings) -> Iterator[Block]:
    """What a layer runs, in order."""
    halved = group.macaron_share if group.macaron else group.residual_scale
    channel = None
    if group.channel is not None:
        of = CHANNELS[type(group.channel)]
        channel = Block(
            of.name,
            "channel",
            of.of,
            "channel",
            lambda x: of.run(t, group.channel, x, load, around),
            halved,
            module="mlp" if isinstance(group.channel, Mlp) else "moe" if isinstance(group.channel, Moe) else None,
            norm_module=_norm_module(group.channel),
        )
    if group.macaron and channel is not None:
        yield channel._replace(name="macaron", norm="macaron", region=None, module=None)
    if group.mixer is not None:
        mixer, shared = MIXERS[type(group.mixer)], group.shared_block
        yield Block(
            mixer.name,
            mixer.name,
            mixer.of,
            "mixer",
            lambda x: mixer.run(t, group.mixer, x, load, around),
            group.residual_scale,
            None if shared is None else lambda x: shared_block(t, shared, group.norm, x, load, around),
            norm_module=_norm_module(group.mixer),
        )
    cross = group.cross
    if cross is not None and around.source is not None:
        yield Block(
            "cross_attention",
            "cross_attention",
            "attention",
            "cross",
            lambda x: cross_attention(t, cross, x, load, around),
            group.residual_scale,
        )
    if group.convolution is not None:
        module = group.convolution
        yield Block("convolution", "convolution", "other", None, lambda x: convolution_module(t, module, x, load))
    if channel is not None:
        yield channel


def _norm_module(block: object) -> str | None:
    """The norm ahead of latent attention and of experts is a kernel, and a module, of its own; ahead of others it is
    one with their first product (Megatron-Core, core/models/gpt/gpt_layer_specs.py at core_v0.18.0: input_layernorm and
    pre_mlp_layernorm beside layers of Transformer Engine)."""
    return "layernorm" if isinstance(block, Mla | Moe) else None


def _in_turn(t: Trace, group: LayerGroup, blocks: list[Block], x: Tensor, around: Surroundings) -> Tensor:
    """Each block reads what the one before it left."""
    for i, block in enumerate(blocks):
        around.stream = x
        before = group.placement in ("pre", "sandwich") and (group.first_norm or i > 0)
        module = group.convolution if block.name == "convolution" else None
        if group.cut is not None and module is not None:
            x = t.tempered("padding", x, x.rows)
        read = x if block.ahead is None else t.add("shared_add", x, block.ahead(x))
        # The ends of one block's interval: a buffer, and what is made of it ahead of each cut.
        ends = constant(t, 1, 3) if group.cut is not None and module is None else None
        read = read if ends is None else clamped(t, read, ends)
        norm = module.norm if group.cut is not None and module is not None and module.norm is not None else group.norm
        with t.module(block.norm_module):
            read = t.norm(f"{block.norm}_norm", norm, read, sequences=around.sequences) if before else read
        y = run_block(t, group, block, read)
        y = y if ends is None else clamped(t, y, ends)
        if group.block_scale:
            y = t.weighed(f"{block.norm}_scale", y, of="other", shifted=group.shifted)
        if group.gates:
            y = t.opened(f"{block.norm}_gate", y, of="other")
        behind = (group.after == "all" or block.region == "channel") and (group.cut is None or module is None)
        if group.placement in ("output", "sandwich") and behind:
            y = t.norm(f"{block.norm}_post_norm", group.norm, y)
        x = _joined(t, group, block, x, read, y)
        if group.laurel is not None and block.region == "mixer":
            x = laurel(t, group.laurel, group.norm, x, read)
        if group.placement == "post":
            x = t.norm(f"{block.norm}_norm", group.norm, x)
    return x


def _in_streams(
    t: Trace,
    group: LayerGroup,
    blocks: list[Block],
    x: Tensor,
    load: Load,
    around: Surroundings,
    n: Size,
    mixing: StreamMixing,
) -> Tensor:
    """Each block reads a mixture of the n streams that lie side by side in x, and what it gives is shared among them.

    Errors: Refused for a layer that joins its blocks to the stream in a way of its own.
    """
    if group.placement != "pre":
        raise Refused("placement", "pre, in layers of several streams", group.placement)
    factors = group.block_scale or group.kept_scale or group.gates or group.residual_scale != 1.0
    if group.residual is not None or factors:
        raise Refused("residual", "plain sums, in layers of several streams", "factors")
    if group.ngrams is not None:
        x = ngrams(t, group.ngrams, group.norm, x, n, load)
    for block in blocks:
        name = f"{'channel' if block.region == 'channel' else 'mixer'}_streams"
        read, written, mixed = connection(t, name, x, n, mixing)
        around.stream = read
        # Where gates make what it reads of normed streams, nothing is normed again.
        normed = t.norm(f"{block.norm}_norm", group.norm, read) if mixing.rank is None else read
        y = run_block(t, group, block, normed)
        x = mixture(t, name, x, y, written, mixed, n)
    return x


def _alternating(
    t: Trace, group: LayerGroup, blocks: list[Block], streams: Tensor, around: Surroundings, spec: AltUp
) -> Tensor:
    """The blocks work on one of several streams; what the layer alone reads is added to all but the first."""
    predicted = predict(t, spec, streams, group.norm)
    y = _in_turn(t, group, blocks, predicted.columns(exact_div(streams.width, spec.n)), around)
    streams = correct(t, spec, predicted, y, group.norm)
    if around.inputs is None:
        return streams
    active = t.weighed("altup_scale", streams.columns(y.width), of="other")
    return t.add("per_layer_add", streams, own_vector(t, around.inputs, active, group.norm))


def _joined(t: Trace, group: LayerGroup, block: Block, x: Tensor, read: Tensor, y: Tensor) -> Tensor:
    """The residual stream behind a block that gave y; read: what it read, x perhaps through a norm."""
    how = group.residual
    residual, added = 1.0, block.scale
    if how is not None:
        mixes = block.region == "mixer"
        residual, added = (how.mixer_kept, how.mixer_added) if mixes else (how.channel_kept, how.channel_added)
        x = read if how.normed else x
    if group.kept_scale:
        x = t.weighed(f"{block.norm}_kept", x, of="other", shifted=group.shifted)
    if residual != 1.0:
        x = t.scaled(f"{block.norm}_kept", x, of="other")
    if added != 1.0:
        y = t.scaled(f"{block.norm}_added", y, of="other")
    return t.add(f"{block.norm}_add", x, y)


def _parallel(t: Trace, group: LayerGroup, blocks: list[Block], x: Tensor) -> Tensor:
    """All blocks read the same stream, through one norm or each its own, and are added up together."""
    if group.placement == "parallel":
        reads = [t.norm(f"{blocks[0].norm}_norm", group.norm, x)] * len(blocks)
    else:
        reads = [t.norm(f"{block.norm}_norm", group.norm, x) for block in blocks]
    made = [run_block(t, group, block, read) for block, read in zip(blocks, reads, strict=True)]
    if group.residual_scale != 1.0:
        made = [t.scaled(f"{block.norm}_added", y, of="other") for block, y in zip(blocks, made, strict=True)]
    return t.add("add", x, *made)
