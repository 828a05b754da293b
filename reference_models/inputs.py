"""Inputs of the right shape for any model, so that one can be run without data."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from reference_models.model import Model
from reference_models.stack import StackOfLayers


def example(
    model: Model,
    batch: int,
    seq: int,
    *,
    source: int | None = None,
    images: int = 0,
    decode: bool = False,
    windows: int = 0,
) -> dict[str, Any]:
    """Arguments of `model.forward` for `batch` sequences of `seq`, on the model's device.

    source: length of the encoder's input, None for what it is made for or else `seq`; frames of a sound where windows
    have no length of their own. images: pictures for the vision tower. windows: of sound for the audio tower. decode:
    the encoder's work is done.
    """
    arguments: dict[str, Any] = {"inputs": _of(model, batch, seq)}
    if model.whole.encoder is not None and not decode:
        length = source or getattr(model.whole.encoder.embedding, "n_frames", None) or seq
        arguments["source"] = _of(model.encoder, batch, length)
    if images and model.whole.eyes is not None:
        arguments["images"] = model.eyes.example(images)
    elif images:
        pictures = model.embedding.picture if model.on_page else model.vision.embedding
        arguments["images"] = pictures.example(images, 1)
    if windows:
        arguments["sounds"] = _of(model.audio, windows, model.audio.spec.embedding.n_frames or source or seq)
    return arguments


def _of(stack: StackOfLayers, batch: int, seq: int) -> Tensor:
    return stack.embedding.example(batch, seq)
