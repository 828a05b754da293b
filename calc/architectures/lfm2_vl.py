"""LFM2-VL (Liquid AI 2025, arXiv:2511.23404): LFM2 with SigLIP 2's tower for pictures of any shape, whose patches are
merged and pass two dense layers."""

from __future__ import annotations

from calc.architectures import lfm2, siglip
from calc.architectures.common import activation
from calc.architectures.config import Config
from calc.architectures.vision import text_section, vision_section
from calc.errors import Refused
from calc.spec import Dense, Head, ModelSpec, Norm, Projector, Tower


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' Lfm2VlConfig. The head belongs to the outer model, which ties it as its own keys
    say, and text_config must not say otherwise."""
    section = text_section(cfg, "lfm2")
    text = lfm2.spec(section)
    outer = cfg.flag("tie_embedding", absent=None)
    usual = cfg.flag("tie_word_embeddings", absent=None)
    tied = True if (outer, usual) == (None, None) else usual if outer is None else outer
    assert text.head is not None
    if text.head.tied is not tied and (outer, usual) == (None, None):
        raise Refused("tie_embedding", "a value beside a text_config that unties its head", "nothing")
    cfg.notes.append("--images counts tiles, into which larger pictures are cut, and the small one of the whole")
    return text.model_copy(update={"head": Head(tied=tied), "vision": _tower(cfg)})


def _tower(cfg: Config) -> Tower:
    """Blocks of patches side by side, a norm, two layers."""
    vision = vision_section(cfg, "siglip2_vision_model")
    vision.only("vision_use_head", False, why="the pooling head is not described")
    vision.flag("vision_use_head")
    side = cfg.size("downsample_factor", absent=2, limit=64)
    normed = cfg.flag("projector_use_layernorm", absent=True)
    bias = cfg.flag("projector_bias", absent=True)
    projector = Projector(
        merge=side**2,
        merge_rows=side,
        norm=Norm(kind="layernorm", bias=True, eps=1e-5) if normed else None,
        layers=(
            Dense(name="linear_1", d_out=cfg.size("projector_hidden_size", absent=2560), bias=bias),
            Dense(name="linear_2", bias=bias),
        ),
        activation=activation(cfg, "projector_hidden_act", absent="gelu"),
    )
    made = siglip.tower(vision, vision.size("hidden_size"), "siglip2")
    return made.model_copy(update={"pool": None, "projectors": (projector,)})
