"""Mistral Large 4's language model (Mistral AI 2026): latent attention to an indexer's tokens, whose heads have learned
how queries grow with their position, layers without positions, latents that layers share, experts."""

from __future__ import annotations

from typing import Any, NamedTuple

from calc.architectures.common import mlp_kinds, stack, without_further_tokens
from calc.architectures.config import Config
from calc.architectures.deepseek_v3 import dense_then_moe, expert_groups, routed_experts
from calc.architectures.deepseek_v32 import indexed_attention
from calc.architectures.glm_moe_dsa import has_indexer
from calc.architectures.llama import decoder, dense_or_moe, rms_norm
from calc.architectures.smollm3 import with_rope
from calc.errors import Refused
from calc.spec import LayerGroup, Mla, ModelSpec, Norm

DEFAULT: dict[str, Any] = {
    "rope_type": "yarn",
    "rope_theta": 10_000.0,
    "factor": 2048.0,
    "original_max_position_embeddings": 512,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "attention_factor": 1.0,
}
"""What MistralLarge4TextConfig takes for absent `rope_parameters`."""


class _Layer(NamedTuple):
    """What tells one layer from another. turns: whether it has positions; owns: latents; chooses: what it reads."""

    turns: bool
    owns: bool
    chooses: bool
    channel: str

    @property
    def name(self) -> str:
        words = "rope" if self.turns else "nope", self.owns or "lent", self.chooses or "shared", self.channel
        return "_".join(word for word in words if isinstance(word, str))


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' MistralLarge4TextConfig: an indexer of 32 heads, 128 wide, in every layer, every
    fourth layer without positions, one dense layer, latents of every layer's own, logits capped at 30.

    The modules that predict further tokens, which transformers skips, are left out.
    """
    n_layers, norm = cfg.layers("num_hidden_layers"), rms_norm(cfg, 1e-5)
    without_further_tokens(cfg, "num_nextn_predict_layers")
    turned = with_rope(cfg, n_layers)
    kinds = mlp_kinds(cfg, dense_then_moe(cfg, n_layers, first=1))
    each = zip(turned, _owners(cfg, turned), has_indexer(cfg, n_layers), kinds, strict=True)
    layers = [_Layer(*one) for one in each]
    named = {layer.name: layer for layer in layers}
    mixer = _mixer(cfg, norm)
    experts = routed_experts(
        cfg, shared=1, groups=expert_groups(cfg), scoring="softmax", correction=False, renormalize=True
    )
    channels = dense_or_moe(cfg, kinds, experts)

    def group(name: str) -> LayerGroup:
        own = _of_layer(mixer, named[name])
        return LayerGroup(count=1, mixer=own, channel=channels[named[name].channel], norm=norm)

    return decoder(
        cfg,
        stack([layer.name for layer in layers], group),
        max_seq_len=1_048_576,
        norm=norm,
        logit_softcap=cfg.number("final_logit_softcapping", absent=30.0),
    )


def _mixer(cfg: Config, norm: Norm) -> Mla:
    """That of a layer with positions, latents of its own and an indexer, which reads what attention reads."""
    index = {"q_norm": Norm(kind="layernorm", bias=True, eps=1e-6), "head_temperature": True}
    own = {"q_rank": None, "head_temperature": True, "norm": norm, "default": DEFAULT}
    mixer = indexed_attention(cfg, n_heads=32, interleaved=True, index=index, **own)
    return mixer.model_copy(update={"rope": mixer.rope.model_copy(update={"tuned": True})})


def _of_layer(mixer: Mla, layer: _Layer) -> Mla:
    """Without positions all of a head's width is each head's own."""
    own: dict[str, Any] = {} if layer.chooses else {"indexer": None}
    if not layer.owns:
        own["kv"] = "earlier"
    if not layer.turns:
        own |= {"position": "none", "d_nope": mixer.d_nope + mixer.d_shared, "d_rope": None}
    return mixer.model_copy(update=own)


def _owners(cfg: Config, turned: list[bool]) -> list[bool]:
    """For each layer: whether its latents are its own; kv_source_layers names the layer whose they are.

    Errors: Refused for another than the last that has its own and positions as the layer does: transformers' modeling
    code reads that one's, whatever layer the config names.
    """
    each = tuple(range(len(turned)))
    named = cfg.numbers("kv_source_layers", length=len(turned), absent=each, null=each)
    for i, source in enumerate(named):
        lenders = [j for j in range(i) if named[j] == j and turned[j] is turned[i]]
        if source != i and source not in lenders[-1:]:
            last = f"{i}, or {lenders[-1]}, " if lenders else f"{i}, as no layer before it could lend, "
            raise Refused(f"{cfg.where}kv_source_layers", f"{last}for layer {i}", source)
    return [source == i for i, source in enumerate(named)]
