"""DINOv2 (Oquab et al. 2023, arXiv:2304.07193): a ViT whose blocks' results are scaled by learned vectors. Also with
registers beside the class token (Darcet et al. 2023, arXiv:2309.16588)."""

from __future__ import annotations

from calc.architectures import vit
from calc.architectures.common import activation, d_head
from calc.architectures.config import Config
from calc.errors import Refused
from calc.spec import Attention, LayerGroup, Mlp, ModelSpec, Patches

EPS = 1e-6


def spec(cfg: Config) -> ModelSpec:
    """A class token, positions for the pictures it was trained on, which others interpolate, and no pooler.

    Defaults as in transformers' Dinov2Config and Dinov2WithRegistersConfig.
    """
    registered = cfg.raw["model_type"] == "dinov2_with_registers"
    name = "Dinov2WithRegistersModel" if registered else "Dinov2Model"
    cfg.architecture({name: True}, usual=name)
    d_model, n_heads = cfg.size("hidden_size"), cfg.size("num_attention_heads")
    bias, norm = cfg.flag("qkv_bias", absent=True), vit.layer_norm(cfg, EPS)
    mixer = Attention(
        n_heads=n_heads,
        d_head=d_head(cfg, d_model, n_heads),
        causal=False,
        qkv_bias=bias,
        out_bias=True,
        position="none",
        softmax="model",
    )
    layer = LayerGroup(
        count=cfg.layers("num_hidden_layers"), mixer=mixer, channel=_mlp(cfg, d_model), norm=norm, block_scale=True
    )
    return ModelSpec(d_model=d_model, embedding=_pictures(cfg, registered), layers=(layer,), final_norm=norm, head=None)


def _pictures(cfg: Config, registered: bool) -> Patches:
    height, width = vit.sides(cfg, "image_size", absent=224)
    if height != width:
        raise Refused(f"{cfg.where}image_size", "a square, which the positions are read as", [height, width])
    front = vit.pictures(cfg, n_special=1, patch_size=16 if registered else 14)
    if front.patch_height != front.patch_width:
        raise Refused(f"{cfg.where}patch_size", "a square, since positions stand in one", "an oblong")
    if registered:
        return front.model_copy(update={"mask_vector": True, "n_registers": cfg.count("num_register_tokens", absent=4)})
    return front.model_copy(update={"mask_vector": cfg.flag("use_mask_token", absent=True)})


def _mlp(cfg: Config, d_model: int) -> Mlp:
    """Gated, with SiLU and two thirds of the width, up to a multiple of 8, in the largest model."""
    d_ff = int(d_model * cfg.number("mlp_ratio", absent=4.0))
    act = activation(cfg, "hidden_act", absent="gelu")
    if cfg.flag("use_swiglu_ffn", absent=False):
        return Mlp(d_ff=(int(d_ff * 2 / 3) + 7) // 8 * 8, gated=True, bias=True, activation="silu")
    return Mlp(d_ff=d_ff, bias=True, activation=act)
