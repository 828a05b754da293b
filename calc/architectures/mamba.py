"""Mamba (arXiv:2312.00752) and Falcon Mamba (arXiv:2410.05355): nothing but state-space layers, no attention, no MLP.

Defaults as in transformers' MambaConfig and FalconMambaConfig. Falcon Mamba also norms step size, B and C, without
weights.
"""

from __future__ import annotations

from typing import Any

from calc.architectures.config import Config
from calc.spec import Head, LayerGroup, Mamba, ModelSpec, Norm


def spec(cfg: Config) -> ModelSpec:
    """RMSNorm before each layer and at the end; the head is tied unless the config says otherwise."""
    inner_norm = None
    if cfg.raw["model_type"] == "falcon_mamba":
        inner_norm = Norm(affine=False, eps=cfg.number("mixer_rms_eps", absent=1e-6))
    cfg.only("hidden_act", "silu", "swish", why="what this family's convolutions and gates run through")
    d_model = cfg.size("hidden_size")
    expand = cfg.size("expand", absent=2)
    cfg.only("intermediate_size", None, expand * d_model, why="the model is built with expand * hidden_size")
    mixer = Mamba(
        d_inner=inner(d_model, expand),
        d_state=cfg.size("state_size", absent=16),
        d_conv=cfg.size("conv_kernel", absent=4),
        dt_rank=step_rank(cfg, "time_step_rank"),
        bias=cfg.flag("use_bias", absent=False),
        conv_bias=cfg.flag("use_conv_bias", absent=True),
        inner_norm=inner_norm,
    )
    return only_mixers(cfg, mixer, tied=True)


def only_mixers(cfg: Config, mixer: Any, *, tied: bool) -> ModelSpec:
    """A model whose layers are `mixer` and a norm each. Its context has no bound of its own."""
    norm = layer_norm(cfg)
    return ModelSpec(
        d_model=cfg.size("hidden_size"),
        vocab_size=cfg.size("vocab_size"),
        layers=(LayerGroup(count=cfg.layers("num_hidden_layers"), mixer=mixer, norm=norm),),
        final_norm=norm,
        head=Head(tied=cfg.flag("tie_word_embeddings", absent=tied)),
    )


def layer_norm(cfg: Config, *, wide: bool = False) -> Norm:
    """The RMSNorm of families that call its eps layer_norm_epsilon."""
    return Norm(eps=cfg.number("layer_norm_epsilon", absent=1e-5), wide=wide)


def inner(d_model: int, expand: int) -> int | None:
    """The channels of a layer; None where they are the usual 2 * d_model, so that formulas say so."""
    return None if expand == 2 else expand * d_model


def step_rank(cfg: Config, name: str) -> int | None:
    """The width that the step size is projected through; None where it follows as hidden_size / 16, rounded up."""
    if isinstance(cfg.raw.get(name, "auto"), str):
        return cfg.choice(name, among={"auto": None}, absent=None)
    return cfg.size(name)
