"""DETR (Carion et al. 2020, arXiv:2005.12872): a ResNet, an encoder over its last map, a decoder of object queries."""

from __future__ import annotations

from typing import Any

from calc.architectures.common import LAYER_NORM, activation
from calc.architectures.config import Config
from calc.errors import Refused, show
from calc.spec import Attention, LayerGroup, Mlp, ModelSpec, Projection, Queries, ResNet, Tower

NAMED = {"resnet50": (3, 4, 6, 3), "resnet101": (3, 4, 23, 3)}
"""Depths of the networks that a config may name; all have bottlenecks of 256 to 2048 channels (He et al. 2016)."""
PIXELS = 512
AXIS_POSITIONS = 50
"""Rows of a learned table, as in the original code; no key sets it."""


def spec(cfg: Config) -> ModelSpec:
    """Positions added in every layer, norms and biases everywhere, heads for classes and boxes behind the decoder."""
    kind = cfg.architecture(
        {"DetrForObjectDetection": "detection", "DetrModel": "none"}, usual="DetrForObjectDetection"
    )
    d_model = cfg.size("d_model")
    cfg.notes.append(
        f"counted for a picture of {PIXELS}x{PIXELS} where --image gives none: the model has no size of its own"
    )
    return ModelSpec(
        d_model=d_model,
        embedding=Queries(n_queries=cfg.size("num_queries", absent=100)),
        layers=(_layer(cfg, "decoder", d_model),),
        final_norm=LAYER_NORM,
        heads=_heads(cfg) if kind == "detection" else (),
        head=None,
        encoder=Tower(
            name="encoder",
            d_model=d_model,
            embedding=_backbone(cfg, d_model),
            layers=(_layer(cfg, "encoder", d_model),),
            final_norm=None,
        ),
    )


def _layer(cfg: Config, side: str, d_model: int) -> LayerGroup:
    """The layers of the encoder or the decoder, each with sizes of its own; both see all of their input."""
    n_heads = cfg.size(f"{side}_attention_heads")
    cfg.multiple("d_model", d_model, f"{side}_attention_heads", n_heads)
    attention = Attention(
        n_heads=n_heads, causal=False, qkv_bias=True, out_bias=True, position="added", softmax="model"
    )
    act = activation(cfg, "activation_function", absent="relu")
    return LayerGroup(
        count=cfg.layers(f"{side}_layers"),
        mixer=attention,
        cross=attention if side == "decoder" else None,
        channel=Mlp(d_ff=cfg.size(f"{side}_ffn_dim"), bias=True, activation=act),
        norm=LAYER_NORM,
        placement="post",
    )


def _backbone(cfg: Config, d_model: int) -> ResNet:
    """The network that backbone_config describes, or the one of timm's that `backbone` names.

    transformers freezes a described network altogether (the names that it looks for match none), and of a named one, as
    the original does, the stem and the first stage.
    """
    cfg.only("dilation", False, None, why="a dilated last stage is not described")
    learned = cfg.choice("position_embedding_type", among={"sine": False, "learned": True}, absent=False)
    if learned and d_model % 2:
        raise Refused("d_model", "an even width, half for rows and half for columns", d_model)
    common: dict[str, Any] = {
        "height": PIXELS,
        "width": PIXELS,
        "axis_positions": AXIS_POSITIONS if learned else None,
    }
    described = cfg.section("backbone_config", absent=None, null=None)
    if described is not None and described.raw.get("model_type") == "resnet":
        return _described(described, common)
    if described is not None and described.raw.get("model_type") != "timm_backbone":
        expected = "resnet or timm_backbone, with its sizes"
        raise Refused("backbone_config.model_type", expected, described.raw.get("model_type"))
    if described is None and not cfg.flag("use_timm_backbone", absent=True, null=True):
        return _described(Config({}, "backbone_config."), common)
    where = cfg if described is None else described
    depths = where.choice("backbone", among=NAMED, absent=NAMED["resnet50"], null=NAMED["resnet50"])
    channels = where.size("num_channels", absent=3)
    return ResNet(**common, depths=depths, channels=channels, trained_from=1)


def _described(cfg: Config, common: dict[str, Any]) -> ResNet:
    """Defaults as in transformers' ResNetConfig; the map that the encoder reads is the last stage's."""
    cfg.only("hidden_act", "relu", why="what the network is described with")
    depths = cfg.numbers("depths", absent=(3, 4, 6, 3))
    for name, last in (("out_features", f"stage{len(depths)}"), ("out_indices", len(depths))):
        given = cfg.raw.get(name)
        if given is not None and not (isinstance(given, list) and given and given[-1] == last):
            raise Refused(f"{cfg.where}{name}", f"a list that ends in the last stage, {last}", show(given))
    return ResNet(
        **common,
        channels=cfg.size("num_channels", absent=3),
        stem=cfg.size("embedding_size", absent=64),
        depths=depths,
        widths=cfg.numbers("hidden_sizes", length=len(depths), absent=(256, 512, 1024, 2048)),
        bottleneck=cfg.choice("layer_type", among={"bottleneck": True, "basic": False}, absent=True),
        stride_first=cfg.flag("downsample_in_bottleneck", absent=False),
        halve_first_stage=cfg.flag("downsample_in_first_stage", absent=False),
        trained_from=len(depths),
    )


def _heads(cfg: Config) -> tuple[Projection, ...]:
    """Each query's class, or none of them, and its box, in shares of the picture (Carion et al. 2020, section 3.2)."""
    return (
        Projection(name="class_head", d_out=cfg.labels() + 1),
        Projection(name="box1", activation="relu"),
        Projection(name="box2", activation="relu", reads="box1"),
        Projection(name="box3", d_out=4, activation="sigmoid", reads="box2"),
    )
