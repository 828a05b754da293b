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
    for mixer in (mixer for group in spec.layers for mixer in group.mixers):
        if isinstance(mixer, Attention):
            heads, d_model = int(mixer.n_heads), int(spec.d_model)
            return AttentionShape(
                heads=heads,
                kv_heads=int(mixer.kv_heads),
                d_head=int(mixer.d_head or d_model // heads),
                d_value=None if mixer.d_value is None else int(mixer.d_value),
                causal=mixer.causal,
                **more,
            )
    raise Refused("model", "a layer of attention whose heads have keys and values", spec.name)


def left_out(spec: ModelSpec) -> list[str]:
    """What `shape_of` leaves out of the attention of `spec`, a sentence each."""
    found = [(g, mixer) for g in spec.layers for mixer in g.mixers if isinstance(mixer, Attention)]
    layers = sum(int(group.count) for group in spec.layers)
    windows = {int(mixer.window) for _, mixer in found if mixer.window is not None}
    windowed = sum(int(group.count) for group, mixer in found if mixer.window is not None)
    notes = []
    if windowed:
        notes.append(
            f"{windowed} of {layers} layers see a window of {', '.join(map(str, sorted(windows)))} tokens alone"
        )
    if (without := layers - sum(int(group.count) for group, _ in found)) > 0:
        notes.append(f"{without} of {layers} layers have no attention, or one of latents")
    if any(mixer.softcap is not None for _, mixer in found):
        notes.append("scores are capped, which few kernels do")
    if any(mixer.sinks for _, mixer in found):
        notes.append("sinks take part in the softmax")
    if any(mixer.position == "alibi" for _, mixer in found):
        notes.append("ALiBi is added to scores")
    return notes
