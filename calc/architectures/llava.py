"""LLaVA (Liu et al. 2023, arXiv:2304.08485, arXiv:2310.03744): a language model that reads what a layer of CLIP's,
SigLIP's or Pixtral's tower gives of a picture, through two dense layers. Pixtral 12B (arXiv:2410.07073) is one."""

from __future__ import annotations

from calc.architectures import clip, llama, mistral, pixtral, qwen2, qwen3
from calc.architectures.common import activation
from calc.architectures.config import Config
from calc.architectures.paligemma import siglip_tower
from calc.architectures.vision import text_section, vision_section
from calc.errors import Refused
from calc.spec import Dense, Head, ModelSpec, Projector, Tower

TEXT = {"llama": llama.spec, "mistral": mistral.spec, "qwen2": qwen2.spec, "qwen3": qwen3.spec}
SIZES = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "image_size", "patch_size")
"""What a tower of CLIP or SigLIP must name."""


def spec(cfg: Config) -> ModelSpec:
    """The language model that text_config names, llama where it names none. The head is tied where either says so."""
    section = text_section(cfg, *TEXT)
    text = TEXT[section.raw.get("model_type", "llama")](section)
    assert text.head is not None
    tied = cfg.flag("tie_word_embeddings", absent=False) or text.head.tied
    vision = vision_section(cfg, "clip_vision_model", "siglip_vision_model", "pixtral")
    made = tower(vision, projector(cfg, text, skip=1), usual="clip_vision_model")
    made = made.model_copy(update={"unread": unread(cfg, made, absent=-2)})
    return text.model_copy(update={"head": Head(tied=tied), "vision": made})


def tower(vision: Config, projector: Projector, usual: str) -> Tower:
    """The tower that vision_config names, `usual` where it names none."""
    kind = vision.raw.get("model_type", usual)
    if kind == "pixtral":
        return pixtral.tower(vision, projector)
    for name in SIZES:
        vision.size(name)
    if kind == "siglip_vision_model":
        vision.only("vision_use_head", False, why="the pooling head is not described")
        vision.flag("vision_use_head")
        return siglip_tower(vision, projector)
    return clip.tower(vision, None).model_copy(update={"projectors": (projector,)})


def projector(cfg: Config, text: ModelSpec, skip: int) -> Projector:
    """One vector a patch; where vision_feature_select_strategy is `default`, without the first, a class token's.

    skip: what the family leaves out where that key is absent.
    """
    ways = {"default": 1, "full": 0}
    bias = cfg.flag("multimodal_projector_bias", absent=True)
    return Projector(
        skip=cfg.choice("vision_feature_select_strategy", among=ways, absent=skip),
        skip_first=True,
        layers=(Dense(name="linear_1", d_out=text.d_model, bias=bias), Dense(name="linear_2", bias=bias)),
        activation=activation(cfg, "projector_hidden_act", absent="gelu"),
    )


def unread(cfg: Config, tower: Tower, absent: int) -> int:
    """How many layers stand behind the one whose result is read. transformers numbers results, the first being what
    goes into the layers, and below zero from the end. absent: what the family's class has."""
    n_layers, at = tower.layers[0].count, cfg.raw.get("vision_feature_layer", absent)
    cfg.read_keys.add("vision_feature_layer")
    if type(at) is not int or not -n_layers <= at <= n_layers or at == 0:
        expected = f"the number of a layer's result, 1 to {n_layers} or -1 to -{n_layers}"
        raise Refused(f"{cfg.where}vision_feature_layer", expected, at)
    return -1 - at if at < 0 else n_layers - at
