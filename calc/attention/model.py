"""The attention of a model, as one call of a kernel."""

from __future__ import annotations

from typing import Any

from calc.attention.shape import AttentionShape
from calc.errors import Refused
from calc.spec import Attention, ModelSpec


def shape_of(spec: ModelSpec, **more: Any) -> AttentionShape:
    """One call of the first layer of `spec` that has attention with keys and values of its own heads.

    more: what the model leaves open, as fields of AttentionShape (batch, seq, dtype, direction, ...).
    Errors: Refused for a model without such a layer.
    """
    for group in spec.layers:
        mixer = group.mixer
        if isinstance(mixer, Attention):
            heads, d_model = int(mixer.n_heads), int(spec.d_model)
            return AttentionShape(
                heads=heads,
                kv_heads=int(mixer.n_kv_heads or heads),
                d_head=int(mixer.d_head or d_model // heads),
                d_value=None if mixer.d_value is None else int(mixer.d_value),
                causal=mixer.causal,
                **more,
            )
    raise Refused("model", "a layer of attention whose heads have keys and values", spec.name)
