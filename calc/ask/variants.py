"""A model with another attention in every layer: what its cache would be as MHA, GQA, MQA, with latents or a window."""

from __future__ import annotations

from collections.abc import Callable

from calc.spec import Attention, Mla, ModelSpec
from calc.spec.layers import LayerGroup

GROUPS = 8
"""Key heads of grouped-query attention, as most models have them (Ainslie et al. 2023, arXiv:2305.13245: G = 8)."""
KV_RANK, D_ROPE = 512, 64
"""Widths of latent attention: DeepSeek-V2 (arXiv:2405.04434, section 3.1.2) and V3."""
WINDOW = 4096
"""Tokens of a sliding window: Mistral 7B (arXiv:2310.06825, table 1)."""


def attention_variants(spec: ModelSpec) -> dict[str, ModelSpec]:
    """The model with each kind of attention in all of its layers, by what people call it; widths of heads stay.

    Nothing for a model with layers of another kind, or that take keys and values of others. A variant whose groups do
    not divide the heads is left out.
    """
    mixers = [group.mixer for group in spec.layers]
    plain = [mixer for mixer in mixers if isinstance(mixer, Attention) and mixer.causal and mixer.kv == "own"]
    if not spec.decodes or len(plain) < len(mixers):
        return {}
    found = {"MHA": _heads(spec, None), "MQA": _heads(spec, 1)}
    if all(mixer.n_heads % GROUPS == 0 for mixer in plain):
        found[f"GQA, {GROUPS} groups"] = _heads(spec, GROUPS)
    found[f"MLA, latents of {KV_RANK} + {D_ROPE}"] = _each(spec, lambda mixer: _latent(mixer, spec.d_model))
    found[f"window of {WINDOW:,}"] = _each(spec, lambda mixer: mixer.model_copy(update={"window": WINDOW}))
    return found


def _heads(spec: ModelSpec, n: int | None) -> ModelSpec:
    return _each(spec, lambda mixer: mixer.model_copy(update={"n_kv_heads": n}))


def _latent(mixer: Attention, d_model: int) -> Mla:
    wide = mixer.d_head or d_model // mixer.n_heads
    return Mla(n_heads=mixer.n_heads, kv_rank=KV_RANK, d_nope=wide, d_rope=D_ROPE, d_value=wide)


def _each(spec: ModelSpec, change: Callable[[Attention], Attention | Mla]) -> ModelSpec:
    def changed(group: LayerGroup) -> LayerGroup:
        mixer = group.mixer
        return group.model_copy(update={"mixer": change(mixer)}) if isinstance(mixer, Attention) else group

    return spec.model_copy(update={"layers": tuple(changed(group) for group in spec.layers)})
