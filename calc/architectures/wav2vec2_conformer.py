"""wav2vec 2.0 with Conformer layers (Gulati et al. 2020, arXiv:2005.08100; as in fairseq S2T, arXiv:2010.05171)."""

from __future__ import annotations

from typing import Any

from calc.architectures import wav2vec2
from calc.architectures.common import activation
from calc.architectures.config import Config
from calc.architectures.vit import layer_norm
from calc.errors import Refused
from calc.spec import Activation, Attention, ConvolutionModule, LayerGroup, Mlp, ModelSpec, Norm, Rope

POSITIONS: dict[str, Any] = {"relative": "transformer-xl", "rotary": "rope"}


def spec(cfg: Config) -> ModelSpec:
    """Half a feed-forward, attention, convolution, the other half, a norm; no norm ahead of the first layer.

    The convolution for positions has its weights and never runs: distances take its place.
    """
    kind = wav2vec2.head_kind(cfg, "Wav2Vec2Conformer")
    positions = wav2vec2.position_convolution(cfg).model_copy(update={"runs": False})
    return ModelSpec(
        d_model=cfg.size("hidden_size"),
        embedding=wav2vec2.samples(cfg, kind).model_copy(update={"position_convolution": positions}),
        layers=(layer(cfg, "gelu", _attention(cfg), ConvolutionModule(), Norm(kind="layernorm", bias=True)),),
        final_norm=layer_norm(cfg, wav2vec2.EPS),
        heads=wav2vec2.heads(cfg, kind),
        head=None,
    )


def _attention(cfg: Config) -> Attention:
    return attention(cfg, cfg.choice("position_embeddings_type", among=POSITIONS, absent="transformer-xl", null="none"))


def attention(cfg: Config, position: Any) -> Attention:
    """All steps see one another; rotary positions turn what queries and keys are projected from."""
    d_model, n_heads = cfg.size("hidden_size"), cfg.size("num_attention_heads")
    cfg.multiple("hidden_size", d_model, "num_attention_heads", n_heads)
    return Attention(
        n_heads=n_heads,
        causal=False,
        qkv_bias=True,
        out_bias=True,
        softmax="model",
        position=position,
        rope=Rope(theta=cfg.number("rotary_embedding_base", absent=10_000.0), inputs=True),
    )


def layer(cfg: Config, absent: Activation, mixer: Attention, module: ConvolutionModule, norm: Norm) -> LayerGroup:
    """A Conformer's layer. absent: the activation that the family takes where none is named. module: the convolution,
    but for its kernel and activation."""
    kernel = cfg.size("conv_depthwise_kernel_size", absent=31)
    if kernel % 2 == 0:
        raise Refused(f"{cfg.where}conv_depthwise_kernel_size", "an odd number", kernel)
    act = activation(cfg, "hidden_act", absent=absent)
    return LayerGroup(
        count=cfg.layers("num_hidden_layers"),
        mixer=mixer,
        channel=Mlp(d_ff=cfg.size("intermediate_size"), bias=True, activation=act),
        macaron=True,
        convolution=module.model_copy(update={"kernel": kernel, "activation": act}),
        out_norm=True,
        norm=norm,
    )
