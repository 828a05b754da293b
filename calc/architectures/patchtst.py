"""PatchTST (Nie et al. 2023, arXiv:2211.14730): an encoder of patches of a time series, each channel by itself."""

from __future__ import annotations

from typing import Any

from calc.architectures.common import activation
from calc.architectures.config import Config
from calc.errors import Refused
from calc.spec import Attention, LayerGroup, Mlp, ModelSpec, Norm, Projection, Series
from calc.spec.fields import MAX_LAYERS

CLASSES = {"PatchTSTForPrediction": "prediction", "PatchTSTForPretraining": "pretraining", "PatchTSTModel": None}
NORMS: dict[str, Any] = {"batchnorm": "batchnorm", "layernorm": "layernorm"}
POOLS: dict[str, Any] = {"mean": "mean", "max": "max"}


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' PatchTSTConfig. Channels are told apart by nothing, so that each is a sequence."""
    cfg.only("channel_attention", False, why="attention among channels is not described")
    cfg.only("share_embedding", True, why="a matrix for each channel is not described")
    kind = cfg.architecture(CLASSES, usual="PatchTSTModel")
    d_model, n_heads = cfg.size("d_model", absent=128), cfg.size("num_attention_heads", absent=4)
    if d_model % n_heads:
        raise Refused(f"{cfg.where}num_attention_heads", f"a divisor of d_model = {d_model}", n_heads)
    front = _front(cfg, d_model)
    channels = cfg.size("num_input_channels", absent=1)
    if channels > 1:
        cfg.notes.append(f"--batch counts channels: {channels} of them are one sample")
    pre_norm = cfg.flag("pre_norm", absent=True)
    norm = Norm(
        kind=cfg.choice("norm_type", among=NORMS, absent="batchnorm"),
        bias=True,
        eps=cfg.number("norm_eps", absent=1e-5),
    )
    if norm.kind == "batchnorm" and not pre_norm:
        raise Refused(
            f"{cfg.where}pre_norm", "true beside norms over a batch, whose result layers would pass on", False
        )
    layer = LayerGroup(
        count=cfg.size("num_hidden_layers", absent=3, limit=MAX_LAYERS),
        mixer=Attention(n_heads=n_heads, causal=False, qkv_bias=True, out_bias=True, position="none", softmax="model"),
        channel=Mlp(
            d_ff=cfg.size("ffn_dim", absent=512),
            bias=cfg.flag("bias", absent=True),
            activation=activation(cfg, "activation_function", absent="gelu"),
            dropout=True,
        ),
        norm=norm,
        placement="pre" if pre_norm else "post",
        residual_dropout=True,
    )
    heads = () if kind is None else (_head(cfg, kind, front),)
    return ModelSpec(d_model=d_model, embedding=front, layers=(layer,), final_norm=None, heads=heads, head=None)


def _front(cfg: Config, d_model: int) -> Series:
    length, patch = cfg.size("context_length", absent=32), cfg.size("patch_length", absent=1)
    if length <= patch:
        raise Refused(f"{cfg.where}context_length", f"more than the patch's {patch} values", length)
    trained = cfg.choice("positional_encoding_type", among={"random": True, "sincos": False}, absent=False)
    if not trained and d_model % 2:
        raise Refused(f"{cfg.where}d_model", "an even number, for sines and cosines of positions", d_model)
    return Series(
        length=length,
        patch=patch,
        stride=cfg.size("patch_stride", absent=1),
        special=cfg.flag("use_cls_token", absent=False),
        trained_positions=trained,
    )


def _head(cfg: Config, kind: str, front: Series) -> Projection:
    """What predicts the patches themselves, or the values to come, of one vector or of all patches side by side."""
    if kind == "pretraining":
        return Projection(name="head", d_out=front.patch)
    cfg.only("share_projection", True, why="a head for each channel is not described")
    cfg.only("loss", "mse", why="heads of distributions are not described")
    d_out = cfg.size("prediction_length", absent=24)
    if front.special:
        return Projection(name="head", d_out=d_out, per="sequence")
    pool = cfg.choice("pooling_type", among=POOLS, absent="mean", null=None)
    if pool is None:
        return Projection(name="head", d_out=d_out, merge=int(front.patches))
    return Projection(name="head", d_out=d_out, per="sequence", pool=pool)
