"""PaliGemma 1 and 2 (Beyer et al. 2024, arXiv:2407.07726; Steiner et al. 2024, arXiv:2412.03555): Gemma's language
models with a SigLIP tower, whose patches pass one matrix."""

from __future__ import annotations

from calc.architectures import gemma, gemma2
from calc.architectures.common import activation
from calc.architectures.config import Config
from calc.architectures.vision import (
    multimodal,
    reaches_text,
    square_patches,
    text_section,
    vision_section,
    vit_layer,
)
from calc.spec import Dense, ModelSpec, Norm, Projector, Tower

TEXT = {"gemma": gemma.spec, "gemma2": gemma2.spec}


def spec(cfg: Config) -> ModelSpec:
    """The language model that text_config names, gemma where it names none. Pictures and prompt see one another both
    ways, which hides no pair that eager attention computes."""
    section = text_section(cfg, *TEXT)
    section.only("use_bidirectional_attention", None, True, why="a prompt of this family sees itself both ways")
    section.raw = {key: value for key, value in section.raw.items() if key != "use_bidirectional_attention"}
    text = TEXT[section.raw.get("model_type", "gemma")](section)
    reaches_text(cfg, "projection_dim", text.d_model, absent=2048)
    return multimodal(cfg, text, _tower(cfg), tied=True)


def _tower(cfg: Config) -> Tower:
    vision = vision_section(cfg, "siglip_vision_model")
    vision.only("vision_use_head", False, why="the pooling head is not described")
    vision.flag("vision_use_head")
    return siglip_tower(vision, Projector(layers=(Dense(name="linear"),)))


def siglip_tower(vision: Config, projector: Projector) -> Tower:
    """SigLIP's layers over pictures of one size, with learned positions and a norm behind them."""
    d_model, n_heads = vision.size("hidden_size"), vision.size("num_attention_heads")
    vision.multiple("hidden_size", d_model, "num_attention_heads", n_heads)
    pixels, patch = vision.size("image_size"), vision.size("patch_size")
    layer = vit_layer(
        vision.layers("num_hidden_layers"),
        n_heads,
        vision.size("intermediate_size"),
        activation(vision, "hidden_act", absent="gelu_tanh"),
        norm=Norm(kind="layernorm", bias=True, eps=vision.number("layer_norm_eps", absent=1e-6)),
    )
    return Tower(
        name="vision",
        d_model=d_model,
        embedding=square_patches(vision, pixels, patch, n_positions=(pixels // patch) ** 2),
        layers=(layer,),
        final_norm=layer.norm,
        projectors=(projector,),
    )
