"""Qwen2-VL (arXiv:2409.12191): Qwen2's dense model with a vision tower that reads pictures of any size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from calc.architectures.common import activation, no_own_d_head
from calc.architectures.config import Config
from calc.architectures.llama import attention, gated_mlp
from calc.architectures.qwen2 import windowed
from calc.architectures.rope import rope
from calc.architectures.vision import plane_rope, reaches_text, vision_section, vit_layer
from calc.errors import Refused
from calc.spec import Activation, Dense, Head, LayerGroup, ModelSpec, Norm, Patches, Plane, Projector, Tower

NORM = Norm(kind="layernorm", bias=True, eps=1e-6)


def spec(cfg: Config) -> ModelSpec:
    """A ViT as the tower."""
    return seeing(cfg, _tower)


def seeing(cfg: Config, make: Callable[[Config, int], Tower]) -> ModelSpec:
    """Text and tower; make(vision_config, d_text) describes the tower for a language model of that width.

    Published configs keep the language model's keys beside `vision_config`, later ones in `text_config`. The head is
    tied where either says so.
    """
    family = cfg.raw["model_type"]
    section = cfg.section("text_config", absent=None, null=None)
    tied = cfg.flag("tie_word_embeddings", absent=False)
    if section is not None:
        section.only("model_type", f"{family}_text", why="the language models that this family is built around")
        section.only("per_layer_config", None, why="layers with sizes of their own are not described")
        tied = section.flag("tie_word_embeddings", absent=False) or tied
    made = text(section or cfg)
    tower = make(vision_section(cfg, f"{family}_vision", family), made.d_model)
    return made.model_copy(update={"head": Head(tied=tied), "vision": tower})


def text(
    cfg: Config, *, kv_absent: int = 8, first: int = 80, eps: float = 1e-5, window: int = 4096, null: Any = False
) -> ModelSpec:
    """Defaults as in transformers' Qwen2VLTextConfig and Qwen2_5_VLTextConfig, but for those that are given.

    Rotary positions of text are those of any other model; a picture's follow time, row and column, each in a section of
    the angles of its own.
    """
    no_own_d_head(cfg)
    if cfg.raw.get("rope_scaling") and cfg.raw.get("rope_parameters"):
        raise Refused(f"{cfg.where}rope_scaling", "nothing beside rope_parameters", "both")
    mixer = attention(cfg, kv_absent=kv_absent, qkv_bias=True, rope=rope(cfg, theta=1e6, sections=True))
    return windowed(cfg, mixer, gated_mlp(cfg), first=first, eps=eps, null=null, window=window)


def _tower(vision: Config, d_text: int) -> Tower:
    """Defaults as in Qwen2VLVisionConfig. `hidden_size` is the language model's width, `embed_dim` the tower's own."""
    reaches_text(vision, "hidden_size", d_text, absent=3584)
    d_model = vision.size("embed_dim")
    layer = tower_layer(
        vision,
        "embed_dim",
        int(d_model * vision.number("mlp_ratio", absent=4.0)),
        activation(vision, "hidden_act", absent="quick_gelu"),
        NORM,
    )
    return merging_tower(vision, d_model, {"layers": (layer,)}, NORM, side=8)


def tower_layer(
    vision: Config, width: str, d_ff: int, act: Activation, norm: Norm, *, fused: bool = True
) -> LayerGroup:
    """As many layers as `depth` says, with rotary positions along both axes.

    width: the key of the tower's width. fused: whether queries, keys and values are one matrix.
    """
    n_heads = vision.size("num_heads")
    vision.multiple(width, vision.size(width), "num_heads", n_heads)
    depth, turns = vision.layers("depth"), plane_rope(vision, Plane())
    return vit_layer(depth, n_heads, d_ff, act, fused=fused, rope=turns, norm=norm)


def merging_tower(vision: Config, d_model: int, layers: dict[str, Any], norm: Norm, *, side: int) -> Tower:
    """Patches of two pictures in time, and a merger behind `layers` (fields of Tower) that joins 2 x 2 of them.

    A still picture fills both frames. side: how many merged vectors stand on a side of the picture that is counted
    where none is asked for, since the tower has no size of its own.
    """
    patch, channels = vision.size("patch_size", absent=14), vision.size("in_channels", absent=3)
    vision.only("in_chans", channels, why="transformers reads in_channels, the older code this key")
    vision.only("spatial_patch_size", patch, why="transformers reads patch_size, the older code this key")
    merge = vision.size("spatial_merge_size", absent=2, limit=64)
    return Tower(
        name="vision",
        among_tokens="in-plane",
        d_model=d_model,
        embedding=Patches(
            height=side * merge * patch,
            width=side * merge * patch,
            patch_height=patch,
            patch_width=patch,
            channels=channels,
            frames=vision.size("temporal_patch_size", absent=2, limit=64),
            bias=False,
        ),
        **layers,
        final_norm=None,
        projectors=(
            Projector(
                name="merger",
                before=norm,
                merge=merge**2,
                merge_rows=merge,
                layers=(Dense(name="fc1"), Dense(name="fc2")),
            ),
        ),
    )
