"""A stack: what its front gives, through all its layers, to its final norm and heads."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from calc.blocks.adapters import prompted, with_prompt
from calc.blocks.altup import into_streams, out_of_streams
from calc.blocks.block_attention import block_bias
from calc.blocks.conformer import thinned
from calc.blocks.denoising import denoised, shared_conditioning
from calc.blocks.disentangled import distance_vectors
from calc.blocks.embedding import fills
from calc.blocks.gated_bias import bias_of_each
from calc.blocks.head import projections
from calc.blocks.layers import layers, unread
from calc.blocks.markers import heard_vectors, seen_vectors
from calc.blocks.page_attention import page_bias
from calc.blocks.patches import grid
from calc.blocks.per_layer import layer_inputs
from calc.blocks.pyramid import Map, neck, pyramid
from calc.blocks.registry import front_of
from calc.blocks.segmentation import mask_decoder
from calc.blocks.streams import collapse, spread
from calc.blocks.surroundings import Surroundings
from calc.blocks.tiles import held, side_by_side
from calc.blocks.windows import check_grid
from calc.errors import Refused
from calc.sizes import Size, is_exactly
from calc.spec import (
    Attention,
    Latents,
    Markers,
    Patches,
    Restored,
    Stack,
    Tiles,
    Tower,
)
from calc.spec.load import Load
from calc.trace.primitives.formats import widened
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


class Stacked(NamedTuple):
    """What a stack gives. vectors [batch * seq, d_model], behind the final norm; load: as the layers see it; end: the
    result of the last dense layer behind it, or the vectors; places: what tells them apart, see `FrontOutput`."""

    vectors: Tensor
    load: Load
    end: Tensor
    places: Tensor | None


def stack(
    t: Trace,
    spec: Stack,
    vocab_size: Size,
    load: Load,
    source: Stacked | None = None,
    seen: Tensor | None = None,
    heard: tuple[Tower, Stacked] | None = None,
) -> Stacked:
    """Front, layers, final norm and heads.

    source: what cross-attention reads. seen: the vectors of pictures, which take the places of some of the first ones.
    heard: the tower that hears, and what it gives, for which the same holds.
    """
    front = front_of(spec.embedding)
    with t.part("embedding", of="embedding", role="front") as out:
        read = ((source.end, source.load.seq),) if source is not None and isinstance(spec.embedding, Restored) else ()
        x, length, places = front(t, spec.embedding, vocab_size, spec.d_model, load, *read)
        x = _dropped(t, spec, x, ("embedding", "both"))
        out.append(x)
    if seen is not None:
        x = t.taken("pictures", x, _seen(t, spec, seen))
    if heard is not None:
        x = t.taken("sounds", x, _heard(t, spec, *heard))
    tokens, vectors = load.seq, getattr(spec.embedding, "vectors", 1)
    load = with_prompt(spec, replace(load, seq=length, context=vectors * load.context, vectors=vectors))
    x = prompted(t, spec, x, load)
    _whole_squares(spec, load)
    around = _surroundings(t, spec, x, load, places, source)
    check_grid(spec, load, around.grid)
    x = _into_streams(t, spec, x, around)
    if getattr(spec.embedding, "wide", False):
        x = widened(t, x)
    around.embedded = x
    x, load = layers(t, spec, x, load, around)
    x, load = _behind_layers(t, spec, x, load, around)
    filled = None
    if fills(spec.embedding, tokens) and not is_exactly(load.seq, tokens):
        load, filled = replace(load, seq=tokens), x
        x = t.joined(x, rows=load.tokens, width=x.width)
    x = _dropped(t, spec, x, ("both",))
    return Stacked(x, load, projections(t, spec.heads, x, load, tokens, filled), places)


def _seen(t: Trace, spec: Stack, x: Tensor) -> Tensor:
    """The vectors of pictures, or where tokens that stand for them have a table, what their embedder makes of them."""
    markers = _markers(spec, "pictures")
    return x if markers is None else seen_vectors(t, markers, x, spec.d_model)


def _heard(t: Trace, spec: Stack, tower: Tower, made: Stacked) -> Tensor:
    """A tower's vectors, or where tokens that stand for sounds have a table, what their embedder makes of them."""
    markers = _markers(spec, "sounds")
    return made.end if markers is None else heard_vectors(t, markers, made.end, spec.d_model, tower, made.load)


def _markers(spec: Stack, name: str) -> Markers | None:
    return next((each for each in getattr(spec.embedding, "markers", ()) if each.name == name), None)


def _behind_layers(t: Trace, spec: Stack, x: Tensor, load: Load, around: Surroundings) -> tuple[Tensor, Load]:
    """What makes maps, masks and fewer or wider vectors of those that leave the last layer, and the final norm."""
    if spec.every is not None:
        x, load = thinned(t, spec.every, x, load)
    maps: list[Map] = []
    if spec.pyramid is not None:
        maps = pyramid(t, spec.pyramid, around.ends, load.batch)
    if spec.neck is not None:
        maps = [neck(t, spec.neck, x, around.grid, load.batch)]
        x = maps[0][0]
    if spec.mask_decoder is not None:
        mask_decoder(t, spec.mask_decoder, maps[:3], load)
    if spec.denoised is not None:
        x, load = denoised(t, spec, spec.denoised, x, load, around)
    if around.streams is not None:
        x = collapse(t, x, *around.streams)
    if around.altup is not None:
        x = out_of_streams(t, around.altup, x)
    if spec.stages is not None and isinstance(spec.embedding, Tiles):
        x, length = side_by_side(t, spec.stages, spec.embedding, x, load)
        load = replace(load, seq=length)
    if isinstance(spec, Tower) and spec.unread is not None:
        unread(t, spec, spec.unread, x, load, around)
    elif spec.final_norm is not None:
        x = t.norm("final_norm", spec.final_norm, x)
    return x, load


def _surroundings(
    t: Trace, spec: Stack, x: Tensor, load: Load, places: Tensor | None, source: Stacked | None
) -> Surroundings:
    """What all layers read beside their own input. x: the vectors that enter the first one."""
    around = Surroundings(places=places)
    if source is not None:
        around = Surroundings(source.vectors, source.load.seq, source.places, places)
    around.sequences = load.batch
    if isinstance(spec.embedding, Patches):
        around.grid = grid(spec.embedding, load)
    if isinstance(spec.embedding, Latents):
        around.conditioning = shared_conditioning(t, spec.embedding, spec.d_model, load)
        around.n_text = spec.embedding.n_text or 0
    if spec.relative_bias is not None:
        around.bias = t.relative_bias(*spec.relative_bias, load.seq, load.context + load.seq)
        if spec.gates_bias:
            around.bias = bias_of_each(t, around.bias, load)
    if isinstance(spec.embedding, Tiles):
        around.mask = load.batch * load.seq * load.seq
        around.held = held(spec.embedding, spec, x, load)
    if spec.in_blocks is not None:
        around.bias = block_bias(t, spec.in_blocks, load)
    if spec.on_page is not None:
        around.bias = page_bias(t, spec.on_page, load)
    if spec.distances is not None:
        around.distances = distance_vectors(t, *spec.distances, spec.d_model, load)
    if spec.per_layer is not None:
        around.inputs = layer_inputs(t, spec.per_layer, spec, x)
    return around


def _into_streams(t: Trace, spec: Stack, x: Tensor, around: Surroundings) -> Tensor:
    """x as the layers read it: one stream, or those that hyper-connections or AltUp work on."""
    if spec.n_streams is not None:
        around.streams = spec.n_streams, spec.stream_mixing
        x = spread(t, x, spec.n_streams)
    if spec.altup is not None:
        around.altup, x = spec.altup, into_streams(t, spec.altup, x)
    return x


def _dropped(t: Trace, spec: Stack, x: Tensor, where: tuple[str, ...]) -> Tensor:
    """x with the dropout that stands outside the layers there, if any."""
    drops = any(group.residual_dropout and group.outer_dropout in where for group in spec.layers[:1])
    return t.dropout("dropout", x) if drops else x


def _whole_squares(spec: Stack, load: Load) -> None:
    """Refuse a picture that squares of patches, within which attention stays, do not cover without a rest."""
    for group in spec.layers:
        side = group.mixer.squares if isinstance(group.mixer, Attention) else None
        if side is None or not isinstance(spec.embedding, Patches):
            continue
        for patches in grid(spec.embedding, load):
            if isinstance(patches, int) and patches % side:
                raise Refused("image", f"whole squares of {side} x {side} patches", f"{patches} patches along a side")
