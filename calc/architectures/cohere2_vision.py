"""Command A Vision (Cohere 2025, arXiv:2504.00698) and Aya Vision (Dash et al. 2025, arXiv:2505.08751): Cohere's
language models with a SigLIP tower, whose patches are merged and pass a gated layer."""

from __future__ import annotations

from calc.architectures import cohere, cohere2
from calc.architectures.config import Config
from calc.architectures.llava import unread
from calc.architectures.paligemma import siglip_tower
from calc.architectures.vision import multimodal, text_section, vision_section
from calc.errors import Refused
from calc.spec import Dense, ModelSpec, Norm, Projector

TEXT = {"cohere": cohere.spec, "cohere2": cohere2.spec}


def spec(cfg: Config) -> ModelSpec:
    """The language model that text_config names, cohere2 where it names none. A picture is one tile of image_size.

    Defaults as in transformers' Cohere2VisionConfig and AyaVisionConfig. Aya reads what a layer of the tower gives,
    Command A what leaves its norm.
    """
    section = text_section(cfg, *TEXT)
    text = TEXT[section.raw.get("model_type", "cohere2")](section)
    vision = vision_section(cfg, "siglip_vision_model")
    vision.only("vision_use_head", False, why="the pooling head is not described")
    vision.flag("vision_use_head")
    aya = cfg.raw["model_type"] == "aya_vision"
    tower = siglip_tower(vision, _aya(cfg, vision, text) if aya else _command(cfg, vision))
    if aya:
        tower = tower.model_copy(update={"unread": unread(cfg, tower, absent=-1)})
    cfg.notes.append("--images counts tiles of image_size, into which larger pictures are cut")
    return multimodal(cfg, text, tower, tied=True)


def _command(cfg: Config, vision: Config) -> Projector:
    return _projector(cfg, vision, cfg.size("alignment_intermediate_size", absent=36864))


def _aya(cfg: Config, vision: Config, text: ModelSpec) -> Projector:
    """A norm on the merged patches, and values and gates that are together as wide as the language model unless
    alignment_intermediate_size, which its config class does not have, says otherwise."""
    cfg.only(
        "vision_feature_select_strategy", "full", why="without a class token, `default` leaves no square of patches"
    )
    inner = cfg.size("alignment_intermediate_size", absent=text.d_model)
    norm = Norm(kind="layernorm", bias=True, eps=cfg.number("adapter_layer_norm_eps", absent=1e-6))
    return _projector(cfg, vision, inner).model_copy(update={"norm": norm})


def _projector(cfg: Config, vision: Config, inner: int) -> Projector:
    """Blocks of patches side by side, and two layers with SwiGLU between them, whose gate is the second half."""
    side = cfg.size("downsample_factor", absent=2)
    patches = vision.size("image_size") // vision.size("patch_size")
    if patches % side:
        raise Refused(f"{cfg.where}downsample_factor", f"a divisor of the {patches} patches of a side", side)
    if inner % 2:
        raise Refused(f"{cfg.where}alignment_intermediate_size", "an even number, for values and their gates", inner)
    layers = (Dense(name="linear_1", d_out=inner), Dense(name="linear_2", gated=True))
    return Projector(merge=side**2, merge_rows=side, layers=layers, activation="silu")
