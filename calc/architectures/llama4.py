"""Llama 4 (Meta, April 2025): the language model of `llama4_text` and a ViT that shuffles four patches into one."""

from __future__ import annotations

from calc.architectures import llama4_text
from calc.architectures.config import Config
from calc.architectures.vision import LAYER_NORM, plane_rope, square_patches, text_section, vision_section, vit_layer
from calc.errors import Refused
from calc.spec import Dense, ModelSpec, Plane, Projector, Tower


def spec(cfg: Config) -> ModelSpec:
    """Text and tower apart. The head belongs to the language model, so text_config says whether it is tied.

    A `vision_config` that is absent or null is refused here; where `architectures` names Llama4ForCausalLM, text_config
    alone is read.
    """
    text = llama4_text.spec(text_section(cfg, "llama4_text"))
    return text.model_copy(update={"vision": _tower(cfg)})


def _tower(cfg: Config) -> Tower:
    """Patches, a class token, learned and rotary positions, norms before and behind the layers, the projector.

    The class token is left out behind the layers. Defaults as in transformers' Llama4VisionConfig, whose adapter runs
    only where its widths meet: intermediate_size = hidden_size / pixel_shuffle_ratio^2, and three equal output widths.
    """
    vision = vision_section(cfg, "llama4_vision_model")
    d_model, n_heads = vision.size("hidden_size"), vision.size("num_attention_heads")
    vision.multiple("hidden_size", d_model, "num_attention_heads", n_heads)
    pixels, patch = vision.size("image_size"), vision.size("patch_size")
    side = _merged_side(vision)
    d_ff = vision.size("intermediate_size")
    if d_ff != side**2 * d_model:
        raise Refused(f"{vision.where}intermediate_size", f"{side**2} * hidden_size = {side**2 * d_model}", d_ff)
    d_hidden = vision.size("projector_input_dim", absent=4096)
    for name, default in (("projector_output_dim", 4096), ("vision_output_dim", 7680)):
        if (width := vision.size(name, absent=default)) != d_hidden:
            raise Refused(vision.where + name, f"projector_input_dim = {d_hidden}", width)
    rope = plane_rope(vision, Plane(first="column", start=1), interleaved=True)
    return Tower(
        name="vision",
        d_model=d_model,
        embedding=square_patches(
            vision,
            pixels,
            patch,
            bias=False,
            n_special=1,
            special_last=True,
            n_positions=(pixels // patch) ** 2 + 1,
            norm=LAYER_NORM,
        ),
        layers=(vit_layer(vision.layers("num_hidden_layers"), n_heads, d_ff, "gelu", rope=rope),),
        final_norm=LAYER_NORM,
        projectors=(
            Projector(
                merge=side**2,
                merge_rows=side,
                skip=1,
                layers=(
                    Dense(name="fc1", d_out=d_hidden, bias=False),
                    Dense(name="fc2", bias=False),
                    Dense(name="linear", bias=False),
                ),
            ),
        ),
    )


def _merged_side(vision: Config) -> int:
    """How many patches are shuffled into one along each side: 1 / pixel_shuffle_ratio."""
    ratio = vision.number("pixel_shuffle_ratio", absent=0.5)
    side = round(1 / ratio) if 0 < ratio <= 1 else 0
    if side < 1 or side * ratio != 1:
        raise Refused(f"{vision.where}pixel_shuffle_ratio", "1 divided by a whole number", ratio)
    return side
