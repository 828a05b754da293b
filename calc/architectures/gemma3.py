"""Gemma 3 (arXiv:2503.19786) with its eyes: the text model of `gemma3_text`, a SigLIP tower and a pooling projector."""

from __future__ import annotations

from calc.architectures import gemma3_text
from calc.architectures.common import activation
from calc.architectures.config import Config
from calc.architectures.vision import multimodal, square_grid, square_patches, text_section, vision_section, vit_layer
from calc.errors import Refused
from calc.spec import Dense, ModelSpec, Norm, Projector, Tower


def spec(cfg: Config) -> ModelSpec:
    """The published configs leave out of text_config what equals the class's defaults, the vocabulary of 262208 too."""
    text = gemma3_text.spec(text_section(cfg, "gemma3_text"))
    return multimodal(cfg, text, siglip(cfg), tied=True)


def siglip(cfg: Config) -> Tower:
    """SigLIP (arXiv:2303.15343), its pictures of one size, whose patches are averaged to `mm_tokens_per_image`."""
    vision = vision_section(cfg, "siglip_vision_model")
    if vision.flag("vision_use_head", absent=True):
        raise Refused(f"{vision.where}vision_use_head", "false (the pooling head is not described)", "true or absent")
    d_model, n_heads = vision.size("hidden_size"), vision.size("num_attention_heads")
    vision.multiple("hidden_size", d_model, "num_attention_heads", n_heads)
    pixels, patch = vision.size("image_size"), vision.size("patch_size")
    side = pixels // patch
    tokens = square_grid(cfg, "mm_tokens_per_image", cfg.size("mm_tokens_per_image", absent=256))
    if side < tokens or side % tokens:
        raise Refused(
            f"{cfg.where}mm_tokens_per_image", f"a square whose side divides the {side} patches of a side", tokens**2
        )
    eps = vision.number("layer_norm_eps", absent=1e-6)
    layer = vit_layer(
        vision.layers("num_hidden_layers"),
        n_heads,
        vision.size("intermediate_size"),
        activation(vision, "hidden_act", absent="gelu_tanh"),
        norm=Norm(kind="layernorm", bias=True, eps=eps),
    )
    return Tower(
        name="vision",
        among_tokens="together",
        d_model=d_model,
        embedding=square_patches(
            vision,
            pixels,
            patch,
            n_positions=side**2,
        ),
        layers=(layer,),
        final_norm=layer.norm,
        projectors=(
            Projector(
                merge=(side // tokens) ** 2,
                merge_rows=side // tokens,
                join="mean",
                norm=Norm(eps=eps, unit_offset=True),
                layers=(Dense(name="linear", bias=False),),
            ),
        ),
    )
