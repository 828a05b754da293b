"""Mistral Small 3.1 and Ministral 3 with their eyes (Mistral AI 2025): Pixtral's tower (arXiv:2410.07073), whose
patches are merged 2 x 2."""

from __future__ import annotations

from calc.architectures import ministral3, mistral, mistral4, pixtral
from calc.architectures.common import activation
from calc.architectures.config import Config
from calc.architectures.vision import text_section, vision_section
from calc.spec import Dense, Head, ModelSpec, Projector, Tower

TEXT = {"mistral": mistral.spec, "ministral3": ministral3.spec, "mistral4": mistral4.spec}


def spec(cfg: Config) -> ModelSpec:
    """The language model that text_config names, mistral where it names none, with the tower beside it."""
    section = text_section(cfg, *TEXT)
    text = TEXT[section.raw.get("model_type", "mistral")](section)
    return text.model_copy(update={"head": Head(tied=_tied(cfg, section)), "vision": tower(cfg, text)})


def _tied(cfg: Config, text: Config) -> bool:
    """The head belongs to the outer model. Where that is silent, transformers 5 ties whatever text_config says, and
    the checkpoints obey text_config, see `Config.tying`."""
    outer = cfg.flag("tie_word_embeddings", absent=None)
    inner = text.flag("tie_word_embeddings", absent=False)
    if outer is not None or inner or cfg.tying == "checkpoint":
        return inner if outer is None else outer
    cfg.notes.append(
        "tie_word_embeddings is absent beside text_config, and transformers 5 then ties this family's head; "
        "a checkpoint that holds a second table is what --tying checkpoint counts"
    )
    return True


def tower(cfg: Config, text: ModelSpec) -> Tower:
    """A ViT with gated MLPs and rotary positions alone, and a projector whose first layer merges patches.

    Defaults as in transformers' Mistral3Config.
    """
    vision = vision_section(cfg, "pixtral")
    cfg.only("vision_feature_layer", -1, why="the result of the last layer is what the projector reads")
    merge = cfg.size("spatial_merge_size", absent=2)
    bias = cfg.flag("multimodal_projector_bias", absent=False)
    projector = Projector(
        merge=merge**2,
        merge_rows=merge,
        before=text.final_norm,
        layers=(
            Dense(name="merging_layer", d_out=vision.size("hidden_size"), bias=False),
            Dense(name="linear_1", d_out=text.d_model, bias=bias, activated=False),
            Dense(name="linear_2", bias=bias),
        ),
        activation=activation(cfg, "projector_hidden_act", absent="gelu"),
    )
    return pixtral.tower(vision, projector)
