"""What families with a vision tower share: the sections of their config, a ViT's layer, and joining text and tower."""

from __future__ import annotations

from typing import Any

from calc.architectures.common import LAYER_NORM, LAYERS_OF_THEIR_OWN
from calc.architectures.config import REFUSE, Config
from calc.errors import Refused
from calc.spec import Activation, Attention, LayerGroup, Mlp, ModelSpec, Norm, Patches, Plane, Rope, Tower


def text_section(cfg: Config, *model_types: str) -> Config:
    """`text_config`, which must describe one of `model_types` and layers without sizes of their own."""
    text = cfg.section("text_config")
    _named(text, model_types, "the language models that this family is built around")
    if not LAYERS_OF_THEIR_OWN & set(model_types):
        text.only("per_layer_config", None, why="layers with sizes of their own are not described")
    return text


def vision_section(cfg: Config, *model_types: str) -> Config:
    """`vision_config`. Absent or null it is refused: transformers would build the tower of its class's defaults, which
    is that of no published checkpoint."""
    vision = cfg.section("vision_config")
    _named(vision, model_types, "the vision towers that this family is built around")
    return vision


def _named(section: Config, model_types: tuple[str, ...], why: str) -> None:
    """An empty `model_type` is none: Kimi-K2.5's tower has one."""
    section.only("model_type", *model_types, "", why=why)


def vit_layer(
    count: int,
    n_heads: int,
    d_ff: int,
    activation: Activation,
    *,
    fused: bool = False,
    rope: Rope | None = None,
    norm: Norm = LAYER_NORM,
) -> LayerGroup:
    """A ViT's layer (Dosovitskiy et al. 2021): LayerNorm before each block, biases, every token sees all others."""
    mixer = Attention(
        n_heads=n_heads,
        causal=False,
        qkv_bias=True,
        out_bias=True,
        fused=fused,
        position="none" if rope is None else "rope",
        rope=rope or Rope(),
    )
    return LayerGroup(count=count, mixer=mixer, channel=Mlp(d_ff=d_ff, bias=True, activation=activation), norm=norm)


def square_patches(cfg: Config, pixels: int, patch: int, *, channels: str = "num_channels", **more: Any) -> Patches:
    """A square picture of `pixels` a side, cut into squares of `patch`. channels: the key of their number; more: other
    fields of Patches."""
    sides = {"height": pixels, "width": pixels, "patch_height": patch, "patch_width": patch}
    return Patches(channels=cfg.size(channels, absent=3), **sides, **more)


def still_patches(vision: Config, pixels: int, patch: int, **more: Any) -> Patches:
    """The same of a tower for pictures and films: a still picture fills both frames of a patch."""
    frames = vision.size("temporal_patch_size", absent=2, limit=64)
    return square_patches(vision, pixels, patch, channels="in_channels", frames=frames, **more)


def plane_rope(vision: Config, plane: Plane, *, theta: float = 10_000.0, interleaved: bool = False) -> Rope:
    """Rotary positions along both axes. theta: what the family takes where `rope_theta` is absent."""
    theta = vision.number("rope_theta", absent=theta, null=theta)
    section = vision.section("rope_parameters", absent=None, null=None)
    if section is not None:
        section.only("rope_type", "axial", "default", why="a tower's rotary positions are not stretched")
        theta = section.number("rope_theta", absent=theta, null=theta)
    return Rope(theta=theta, plane=plane, interleaved=interleaved)


def multimodal(cfg: Config, text: ModelSpec, tower: Tower | None, *, tied: bool) -> ModelSpec:
    """`text` with a vision tower beside it, its head tied as the outer config says, `tied` where it does not.

    The head belongs to the outer model, so transformers 5 obeys the outer `tie_word_embeddings` and never reads that of
    text_config (before version 5 it was the other way round). Where the outer key is absent and the inner one says
    otherwise than the default, the two readings differ, and the config is refused.
    """
    outer = cfg.flag("tie_word_embeddings", absent=None)
    inner = cfg.raw["text_config"].get("tie_word_embeddings", tied)
    if outer is None and inner is not tied:
        raise Refused("tie_word_embeddings", f"a value beside text_config.tie_word_embeddings = {inner}", "nothing")
    head = text.head
    if head is not None:
        head = head.model_copy(update={"tied": tied if outer is None else outer})
    return text.model_copy(update={"head": head, "vision": tower})


def square_grid(cfg: Config, name: str, positions: int) -> int:
    """The side of the square of learned positions that `name` counts."""
    side = round(positions**0.5)
    if side * side != positions:
        raise Refused(cfg.where + name, "a square number, for a square grid of positions", positions)
    return side


def reaches_text(cfg: Config, name: str, d_text: int, absent: int = REFUSE) -> None:
    """Refuse a tower that gives another width, `name`, than the language model has."""
    width = cfg.size(name, absent=absent)
    if width != d_text:
        raise Refused(cfg.where + name, f"text_config's hidden_size = {d_text}", width)
