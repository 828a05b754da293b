"""Vision Transformer (Dosovitskiy et al. 2021, arXiv:2010.11929), and the pieces that its descendants share."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from calc.architectures.common import activation, d_head
from calc.architectures.config import REFUSE, Config
from calc.errors import Refused
from calc.spec import Attention, LayerGroup, Mlp, ModelSpec, Norm, Patches, Projection
from calc.spec.fields import MAX_LAYERS, MAX_SIZE

POOLING: dict[str, Any] = {"tanh": "tanh", "gelu": "gelu", "relu": "relu", "silu": "silu"}


def spec(cfg: Config) -> ModelSpec:
    """A class token and learned positions, LayerNorm before each block, biases everywhere.

    Also MSN's encoder (Assran et al. 2022, arXiv:2204.07141), which has no pooler.
    """
    if cfg.raw["model_type"] == "vit_msn":
        classes = {"ViTMSNModel": False, "ViTMSNForImageClassification": True}
        named = cfg.architecture(classes, usual="ViTMSNModel")
        return encoder(cfg, pictures(cfg, n_special=1), (classifier(cfg, "classifier"),) if named else (), eps=1e-6)
    kind = cfg.architecture(
        {"ViTForImageClassification": "classifier", "ViTModel": "pooler"}, "ViTForImageClassification"
    )
    heads = (classifier(cfg, "classifier"),) if kind == "classifier" else (pooler(cfg),)
    return encoder(cfg, pictures(cfg, n_special=1), heads)


def pictures(cfg: Config, n_special: int, patch_size: int = 16) -> Patches:
    """Square or oblong patches, and positions for all vectors of a picture of image_size.

    patch_size: what the family takes where the key is absent.
    """
    height, width = sides(cfg, "image_size", absent=224)
    patch_height, patch_width = sides(cfg, "patch_size", absent=patch_size)
    return Patches(
        height=height,
        width=width,
        patch_height=patch_height,
        patch_width=patch_width,
        channels=cfg.size("num_channels", absent=3),
        n_special=n_special,
        n_positions=(height // patch_height) * (width // patch_width) + n_special,
    )


def layer_norm(cfg: Config, eps: float = 1e-12) -> Norm:
    """LayerNorm; eps: what the family takes where layer_norm_eps is absent."""
    return Norm(kind="layernorm", bias=True, eps=cfg.number("layer_norm_eps", absent=eps))


def sides(cfg: Config, name: str, absent: int) -> tuple[int, int]:
    """Height and width that one number, or a list of two, gives."""
    if isinstance(cfg.raw.get(name), list):
        height, width = cfg.numbers(name, length=2)
        if 0 in (height, width):
            raise Refused(f"{cfg.where}{name}", "numbers above 0", 0)
        return height, width
    side = cfg.size(name, absent=absent)
    return side, side


def encoder(cfg: Config, front: Patches, heads: tuple[Projection, ...], eps: float = 1e-12) -> ModelSpec:
    """Layers that see all of their input, a norm behind them, and `heads`. eps: as in `layer_norm`."""
    norm = layer_norm(cfg, eps)
    return ModelSpec(
        d_model=cfg.size("hidden_size"),
        embedding=front,
        layers=(layer(cfg, norm),),
        final_norm=norm,
        heads=heads,
        head=None,
    )


def layer(cfg: Config, norm: Norm, prefix: str = "", usual: Mapping[str, int] = MappingProxyType({})) -> LayerGroup:
    """Layers whose sizes stand under keys that begin with `prefix`; usual: those of keys that may be absent."""

    def size(name: str, limit: int = MAX_SIZE) -> int:
        return cfg.size(prefix + name, absent=usual.get(name, REFUSE), limit=limit)

    d_model, n_heads = size("hidden_size"), size("num_attention_heads")
    if prefix and d_model % n_heads and cfg.raw.get("head_dim") is None:
        expected = f"a divisor of {prefix}hidden_size = {d_model}"
        raise Refused(f"{cfg.where}{prefix}num_attention_heads", expected, n_heads)
    mixer = Attention(
        n_heads=n_heads,
        d_head=d_head(cfg, d_model, n_heads),
        causal=False,
        qkv_bias=cfg.flag("qkv_bias", absent=True),
        out_bias=True,
        position="none",
    )
    act = activation(cfg, "hidden_act", absent="gelu")
    channel = Mlp(d_ff=size("intermediate_size"), bias=True, activation=act)
    count = size("num_hidden_layers", MAX_LAYERS)
    return LayerGroup(count=count, mixer=mixer, channel=channel, norm=norm, residual_dropout=True)


def classifier(cfg: Config, name: str, **reading: Any) -> Projection:
    """A linear layer on the class token. reading: what else it reads, and how, as fields of Projection."""
    return Projection(name=name, d_out=cfg.labels(), per="sequence", **reading)


def pooler(cfg: Config) -> Projection:
    """A dense layer on the class token."""
    act = cfg.choice("pooler_act", among=POOLING, absent="tanh")
    d_out = cfg.size("pooler_output_size", absent=None, null=None)
    return Projection(name="pooler", d_out=d_out, per="sequence", activation=act)
