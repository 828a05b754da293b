"""Step 3.7 (StepFun 2026): Step 3.5 with eyes, a ViT of which two convolutions leave a vector for 16 patches."""

from __future__ import annotations

from calc.architectures import step3p5
from calc.architectures.common import activation
from calc.architectures.config import Config
from calc.architectures.vision import multimodal, plane_rope, square_patches, text_section, vision_section, vit_layer
from calc.errors import Refused
from calc.spec import Convolution, Dense, ModelSpec, Norm, Plane, Projector, Tower

RATIO = 8960 / 1536
"""The width of MLPs over that of vectors, where mlp_ratio is absent."""


def spec(cfg: Config) -> ModelSpec:
    """Both sections are what their classes make of them, whatever model_type they name, as transformers has it."""
    text = step3p5.spec(text_section(cfg, "step3p5"))
    cfg.notes.append(
        "--images counts pictures of image_size; crops beside them, of 504 pixels as published, are not counted"
    )
    return multimodal(cfg, text, _tower(cfg), tied=False)


def _tower(cfg: Config) -> Tower:
    """Learned and rotary positions, a norm ahead of the layers and none behind, blocks scaled by learned vectors.

    Defaults as in transformers' Step3p7VisionConfig, which knows the published names of sizes (width, layers, heads).
    """
    vision = vision_section(cfg, "step3p5_vision", "perception_encoder")
    d_model, n_heads = vision.size("width", "hidden_size"), vision.size("heads", "num_attention_heads")
    d_head = vision.multiple("hidden_size", d_model, "num_attention_heads", n_heads)
    vision.only("head_dim", None, d_head, why="heads of this family have no width of their own")
    norm = Norm(kind="layernorm", bias=True, eps=vision.number("layer_norm_eps", absent=1e-5))
    layer = vit_layer(
        vision.layers("layers", "num_hidden_layers"),
        n_heads,
        _d_ff(vision, d_model),
        activation(vision, "hidden_act", absent="quick_gelu"),
        rope=plane_rope(vision, Plane(first="column")),
        norm=norm,
    )
    pixels, patch = vision.size("image_size", absent=728), vision.size("patch_size", absent=14)
    positions = {"n_positions": (pixels // patch) ** 2, "resize": "bilinear"}
    halved = {"kernel": 3, "stride": 2, "padding": 1, "dims": 2, "activation": None}
    return Tower(
        name="vision",
        d_model=d_model,
        embedding=square_patches(vision, pixels, patch, bias=False, norm=norm, **positions),
        layers=(layer.model_copy(update={"block_scale": True}),),
        final_norm=None,
        projectors=(
            Projector(
                convolutions=(
                    Convolution(name="downsampler1", n_channels=2 * d_model, **halved),
                    Convolution(name="downsampler2", n_channels=4 * d_model, **halved),
                ),
                layers=(Dense(name="linear", bias=cfg.flag("projector_bias", absent=False)),),
            ),
        ),
    )


def _d_ff(vision: Config, d_model: int) -> int:
    """What the class makes of mlp_ratio, whatever intermediate_size says."""
    d_ff = int(d_model * vision.number("mlp_ratio", absent=RATIO))
    if d_ff < 1:
        raise Refused(f"{vision.where}mlp_ratio", "a ratio that leaves MLPs a width", vision.raw["mlp_ratio"])
    return d_ff
