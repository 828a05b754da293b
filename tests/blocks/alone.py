"""One block by itself: a model of two equal layers that hold it and their norms, between a table and its head."""

from __future__ import annotations

from math import prod
from typing import Any

import calc
from calc.spec import Embedding, Head, LayerGroup, ModelSpec, Norm

D, V, LAYERS = 12, 50, 2
"""Width, vocabulary and layers."""


def model(mixer: Any = None, channel: Any = None) -> ModelSpec:
    """Norms without weights, a tied head and no positions: beside the block there is the table alone."""
    plain = Norm(affine=False)
    group = LayerGroup(count=LAYERS, mixer=mixer, channel=channel, norm=plain)
    return ModelSpec(
        d_model=D, vocab_size=V, embedding=Embedding(), layers=(group,), final_norm=plain, head=Head(tied=True)
    )


def parameters(mixer: Any = None, channel: Any = None) -> int:
    """Elements of the block's weights in one layer."""
    shapes = calc.parameter_shapes(model(mixer, channel))
    own = sum(prod(int(axis) for axis in shape) for shape in shapes.values()) - V * D  # pyright: ignore[reportArgumentType]
    assert own % LAYERS == 0
    assert own == calc.estimate(model(mixer, channel), "params").value - V * D
    return own // LAYERS


def flops(mixer: Any = None, channel: Any = None, batch: int = 1, seq: int = 1) -> int:
    """FLOPs of the block in one layer, going forward, without the logits."""
    whole = calc.estimate(model(mixer, channel), "flops.forward", batch=batch, seq=seq).value
    own = int(whole) - 2 * batch * seq * D * V
    assert own % LAYERS == 0
    return own // LAYERS


def decoded(mixer: Any, context: int) -> int:
    """FLOPs of the block in one layer for one token more behind `context`."""
    own = int(calc.estimate(model(mixer), "flops.decode", context=context).value) - 2 * D * V
    assert own % LAYERS == 0
    return own // LAYERS


def cached(mixer: Any, seq: int) -> int:
    """Elements of the cache in one layer, with states in the same format."""
    found = calc.estimate(model(mixer), "kv_cache", seq=seq, dtype="fp32", state_dtype="fp32").value
    assert found % (4 * LAYERS) == 0
    return int(found) // (4 * LAYERS)
