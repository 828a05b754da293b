"""DINOv3 (Siméoni et al. 2025, arXiv:2508.10104): a ViT with registers beside the class token, and rotary positions
that are spread over the picture, whatever its size."""

from __future__ import annotations

from calc.architectures import vit
from calc.architectures.common import activation
from calc.architectures.config import Config
from calc.errors import Refused
from calc.spec import Attention, LayerGroup, Mlp, ModelSpec, Patches, Plane, Rope

EPS = 1e-5


def spec(cfg: Config) -> ModelSpec:
    """LayerNorm before each block, blocks' results scaled by learned vectors, keys without a bias.

    Defaults as in transformers' DINOv3ViTConfig. What training does to the places of patches changes no count.
    """
    cfg.architecture({"DINOv3ViTModel": True}, usual="DINOv3ViTModel")
    d_model, norm = cfg.size("hidden_size"), vit.layer_norm(cfg, EPS)
    gated = cfg.flag("use_gated_mlp", absent=False)
    layer = LayerGroup(
        count=cfg.layers("num_hidden_layers"),
        mixer=_attention(cfg, d_model),
        channel=Mlp(
            d_ff=cfg.size("intermediate_size"),
            gated=gated,
            bias=cfg.flag("mlp_bias", absent=True),
            activation=activation(cfg, "hidden_act", absent="gelu"),
        ),
        norm=norm,
        block_scale=True,
    )
    return ModelSpec(d_model=d_model, embedding=_pictures(cfg), layers=(layer,), final_norm=norm, head=None)


def _attention(cfg: Config, d_model: int) -> Attention:
    n_heads = cfg.size("num_attention_heads")
    d_head = cfg.multiple("hidden_size", d_model, "num_attention_heads", n_heads)
    cfg.only("head_dim", None, d_head, why="heads of this family have no width of their own")
    bias = {name: cfg.flag(f"{name}_bias", absent=name != "key") for name in ("query", "key", "value", "proj")}
    if bias["query"] != bias["value"]:
        raise Refused(f"{cfg.where}value_bias", f"the same as query_bias = {bias['query']}", bias["value"])
    theta = cfg.number("rope_theta", absent=100.0)
    return Attention(
        n_heads=n_heads,
        causal=False,
        qkv_bias=bias["query"],
        k_bias=bias["key"],
        out_bias=bias["proj"],
        rope=Rope(theta=theta, plane=Plane(spread=True)),
        softmax="model",
    )


def _pictures(cfg: Config) -> Patches:
    """The class token and the registers stand in one table; neither has a place that turns them."""
    n_special = 1 + cfg.count("num_register_tokens", absent=0)
    return vit.pictures(cfg, n_special=n_special).model_copy(update={"n_positions": None, "mask_vector": True})
