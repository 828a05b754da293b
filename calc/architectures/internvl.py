"""InternVL 3 and 3.5 as transformers has them (Zhu et al. 2025, arXiv:2504.10479; Wang et al. 2025, arXiv:2508.18265):
Qwen's language models or Llama with InternViT, whose blocks' results are scaled by learned vectors."""

from __future__ import annotations

from typing import Any

from calc.architectures import gpt_oss, llama, qwen2, qwen3, qwen3_moe, vit
from calc.architectures.common import activation
from calc.architectures.config import Config
from calc.architectures.vision import multimodal, text_section, vision_section
from calc.errors import Refused
from calc.spec import Attention, Dense, LayerGroup, Mlp, ModelSpec, Norm, Patches, Projector, QkNorm, Tower

TEXT = {
    "qwen2": qwen2.spec,
    "qwen3": qwen3.spec,
    "qwen3_moe": qwen3_moe.spec,
    "llama": llama.spec,
    "gpt_oss": gpt_oss.spec,
}
NORMS: dict[str, Any] = {
    "layer_norm": {"kind": "layernorm", "bias": True},
    "rms_norm": {"kind": "rmsnorm"},
}


def spec(cfg: Config) -> ModelSpec:
    """The language model that text_config names, qwen2 where it names none. A picture is one tile of image_size."""
    section = text_section(cfg, *TEXT)
    text = TEXT[section.raw.get("model_type", "qwen2")](section)
    cfg.notes.append("--images counts tiles of image_size, into which larger pictures are cut")
    return multimodal(cfg, text, _tower(cfg, text), tied=True)


def _tower(cfg: Config, text: ModelSpec) -> Tower:
    """A class token, which the projector leaves out, learned positions, and no norm behind the layers unless
    use_mean_pooling is off."""
    vision = vision_section(cfg, "internvl_vision")
    cfg.only("vision_feature_layer", -1, why="the result of the last layer is what the projector reads")
    cfg.only("vision_feature_select_strategy", "default", why="the class token is left out")
    d_model = vision.size("hidden_size")
    norm = Norm(
        eps=vision.number("layer_norm_eps", absent=1e-6),
        **vision.choice("norm_type", among=NORMS, absent=NORMS["layer_norm"]),
    )
    plain = Norm(kind="layernorm", bias=True, eps=norm.eps)
    layer = LayerGroup(
        count=vision.layers("num_hidden_layers"),
        mixer=_attention(vision, d_model),
        channel=Mlp(
            d_ff=vision.size("intermediate_size"), bias=True, activation=activation(vision, "hidden_act", absent="gelu")
        ),
        norm=norm,
        block_scale=True,
    )
    front = _pictures(vision)
    return Tower(
        name="vision",
        d_model=d_model,
        embedding=front,
        layers=(layer,),
        final_norm=None if vision.flag("use_mean_pooling", absent=True) else plain,
        projectors=(_projector(cfg, text, front),),
    )


def _attention(vision: Config, d_model: int) -> Attention:
    n_heads = vision.size("num_attention_heads")
    vision.multiple("hidden_size", d_model, "num_attention_heads", n_heads)
    normed = QkNorm(norm=Norm(eps=1e-6), span="all") if vision.flag("use_qk_norm", absent=False) else None
    bias = vision.flag("attention_bias", absent=False)
    return Attention(
        n_heads=n_heads, causal=False, qkv_bias=bias, out_bias=True, position="none", qk_norm=normed, softmax="model"
    )


def _pictures(vision: Config) -> Patches:
    vision.only("use_absolute_position_embeddings", True, why="a tower without positions is not described")
    height, width = vit.sides(vision, "image_size", absent=448)
    patch_height, patch_width = vit.sides(vision, "patch_size", absent=14)
    if height != width or patch_height != patch_width:
        raise Refused(f"{vision.where}image_size", "a square, cut in squares", [height, width])
    side = height // patch_height
    return Patches(
        height=height,
        width=width,
        patch_height=patch_height,
        patch_width=patch_width,
        channels=vision.size("num_channels", absent=3),
        n_special=1,
        n_positions=side**2 + 1,
        mask_vector=vision.flag("use_mask_token", absent=False),
    )


def _projector(cfg: Config, text: ModelSpec, front: Patches) -> Projector:
    """Blocks of patches side by side, a norm, and two layers as wide as the text."""
    ratio = cfg.number("downsample_ratio", absent=0.5)
    side = round(1 / ratio) if 0 < ratio <= 1 else 0
    if not side or 1 / side != ratio or (front.height // front.patch_height) % side:
        raise Refused(f"{cfg.where}downsample_ratio", "one over a divisor of the patches of a side", ratio)
    return Projector(
        merge=side**2,
        merge_rows=side,
        skip=1,
        skip_first=True,
        norm=Norm(kind="layernorm", bias=True, eps=1e-5),
        layers=(Dense(name="linear_1", d_out=text.d_model), Dense(name="linear_2")),
        activation=activation(cfg, "projector_hidden_act", absent="gelu"),
    )
