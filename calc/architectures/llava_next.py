"""LLaVA-NeXT (Liu et al. 2024) and LLaVA-OneVision (Li et al. 2024, arXiv:2408.03326): LLaVA over the tiles of a
picture, whose rows end in a learned vector where they are laid together."""

from __future__ import annotations

from calc.architectures import llava
from calc.architectures.config import Config
from calc.architectures.vision import multimodal, text_section, vision_section
from calc.errors import Refused
from calc.spec import Head, ModelSpec, Patches, Tower


def spec(cfg: Config) -> ModelSpec:
    """The language model that text_config names, llama, or OneVision's qwen2, where it names none.

    Defaults as in transformers' LlavaNextConfig and LlavaOnevisionConfig; the latter ties the head where text_config
    alone says so.
    """
    one = cfg.raw["model_type"] == "llava_onevision"
    section = text_section(cfg, *llava.TEXT)
    text = llava.TEXT[section.raw.get("model_type", "qwen2" if one else "llama")](section)
    tower = _tower(cfg, text, one)
    cfg.notes.append(
        "--images counts tiles of image_size: one of the whole picture and those that a larger one is cut into; "
        "vectors that end the rows of the latter are tokens of --seq"
    )
    if not one:
        return multimodal(cfg, text, tower, tied=False)
    assert text.head is not None
    tied = cfg.flag("tie_word_embeddings", absent=False) or text.head.tied
    return text.model_copy(update={"head": Head(tied=tied), "vision": tower})


def _tower(cfg: Config, text: ModelSpec, one: bool) -> Tower:
    """Every patch of a tile, and no class token, which would stand in no row."""
    usual = "siglip_vision_model" if one else "clip_vision_model"
    vision = vision_section(cfg, "clip_vision_model", "siglip_vision_model")
    projector = llava.projector(cfg, text, skip=0 if one else 1).model_copy(update={"newline": True})
    tower = llava.tower(vision, projector, usual)
    assert isinstance(tower.embedding, Patches)
    if projector.skip != tower.embedding.n_special:
        words = ("full", "default")
        expected = f"{words[tower.embedding.n_special]}, which leaves the patches of this tower alone"
        raise Refused(f"{cfg.where}vision_feature_select_strategy", expected, words[projector.skip])
    return tower.model_copy(update={"unread": llava.unread(cfg, tower, absent=-1 if one else -2)})
