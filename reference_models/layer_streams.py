"""Layers of several residual streams: what hyper-connections, or alternating updates, add to a layer and run in it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from calc.spec import AltUp, LayerGroup, StreamMixing
from reference_models.blocks.altup import Correction, Prediction
from reference_models.blocks.gated_streams import GatedConnection
from reference_models.blocks.linear import BlockScale
from reference_models.blocks.ngrams import NGramVectors
from reference_models.blocks.streams import Connection
from reference_models.cache import LayerCache
from reference_models.step import Step


def add_streams(layer: Any, n_streams: int, spec: StreamMixing, d_model: int) -> None:
    """Give every block hyper-connections. Errors: NotImplementedError for a layer that joins blocks otherwise."""
    group, plain = layer.group, LayerGroup(name="plain", count=1)
    joined = ("placement", "cross", "macaron", "convolution", "residual", "residual_scale", "first_norm")
    joined += ("beside", "out_norm", "out_scale", "block_scale", "kept_scale", "gates")
    others = [name for name in joined if getattr(group, name) != getattr(plain, name)]
    if others or hasattr(layer, "per_layer"):
        raise NotImplementedError(f"n_streams: no module computes them beside {', '.join(others) or 'per_layer'}")
    layer.streams = True
    connection = Connection if spec.rank is None else GatedConnection
    for block in layer.blocks:
        layer.add_module(_streams_of(layer, block), connection(n_streams, spec, d_model))
        if spec.rank is not None:
            layer.drop_norm(block)
    if group.ngrams is not None:
        layer.ngrams = NGramVectors(group.ngrams, group.norm, n_streams, d_model)


def in_streams(layer: Any, name: str, streams: Tensor, step: Step, cache: LayerCache | None) -> Tensor:
    """As `run_block`, streams [batch, seq, n_streams, d_model] -> the same shape."""
    connection = layer.get_submodule(_streams_of(layer, name))
    x, written, mixed = connection(streams)
    read = layer.normed(name, "norm", x) if connection.spec.rank is None else x
    out = layer.run(name, read, replace(step, stream=x), cache)
    return connection.join(streams, out, written, mixed, step)


def _streams_of(layer: Any, block: str) -> str:
    return "channel_streams" if block == layer.channel else "mixer_streams"


def alternate(layer: Any, spec: AltUp, d_model: int) -> None:
    """Let the blocks work on one of several streams."""
    layer.alternates = spec
    layer.altup = Prediction(spec, layer.group.norm, d_model)
    layer.altup_correction = Correction(spec)
    if hasattr(layer, "per_layer"):
        layer.altup_scale = BlockScale(d_model)


def alternating(
    layer: Any, spec: AltUp, streams: Tensor, step: Step, mixer: LayerCache | None, cross: LayerCache | None
) -> Tensor:
    """streams [batch, seq, n, d_model] -> the same shape."""
    predicted = layer.altup(streams, step)
    y = predicted[:, :, spec.active]
    for name in layer.blocks:
        y = layer.run_block(name, y, replace(step, stream=y), cross if name == "cross_attention" else mixer)
    streams = layer.altup_correction(predicted, y, layer.altup.modes(y))
    if step.own_input is None:
        return streams
    active = layer.altup_scale(streams[:, :, spec.active])
    own = layer.per_layer_post_norm(layer.per_layer(active, step.own_input))
    return torch.cat([streams[:, :, :1], streams[:, :, 1:] + own[:, :, None]], 2)
