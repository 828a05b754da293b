"""ViT-MAE (He et al. 2022, arXiv:2111.06377): a ViT that sees some patches, and a decoder that fills in the others."""

from __future__ import annotations

from math import isqrt

from calc.architectures import vit
from calc.architectures.config import Config
from calc.errors import Refused
from calc.spec import ModelSpec, Patches, Projection, Restored, Tower

USUAL = {"hidden_size": 512, "num_hidden_layers": 8, "num_attention_heads": 16, "intermediate_size": 2048}
"""Sizes of the decoder where keys are absent, as in transformers' ViTMAEConfig."""


def spec(cfg: Config) -> ModelSpec:
    """The encoder alone (ViTMAEModel), whose patches are chosen in every pass, or with the decoder behind it."""
    whole = cfg.architecture({"ViTMAEForPreTraining": True, "ViTMAEModel": False}, usual="ViTMAEForPreTraining")
    encoder = vit.encoder(cfg, _patches(cfg), ())
    _for_sines(cfg, "hidden_size", encoder.d_model)
    return _with_decoder(cfg, encoder) if whole else encoder


def _patches(cfg: Config) -> Patches:
    """Positions are sinusoids of a square, which are held like learned ones."""
    masked = cfg.number("mask_ratio", absent=0.75)
    if not 0 <= masked < 1:
        raise Refused(f"{cfg.where}mask_ratio", "a share from 0 on that leaves some of the patches", masked)
    front = vit.pictures(cfg, n_special=1)
    n = (front.n_positions or 0) - 1
    if isqrt(n) ** 2 != n:
        raise Refused(f"{cfg.where}image_size", "as many patches as a square has, for whose rows positions are made", n)
    if int(n * (1 - masked)) < 1:
        raise Refused(f"{cfg.where}mask_ratio", f"a share that leaves some of {n} patches", masked)
    return front.model_copy(update={"masked": masked, "trained_positions": False})


def _for_sines(cfg: Config, name: str, width: int) -> None:
    if width % 4:
        raise Refused(cfg.where + name, "a multiple of 4, for sines and cosines along both axes", width)


def _with_decoder(cfg: Config, encoder: ModelSpec) -> ModelSpec:
    """Layers like the encoder's, of sizes of their own, over all patches; behind them the pixels of each."""
    front, norm = encoder.embedding, vit.layer_norm(cfg)
    assert isinstance(front, Patches)
    side, patch = front.height, front.patch_height
    for name in ("image_size", "patch_size"):
        if isinstance(cfg.raw.get(name), list):
            raise Refused(cfg.where + name, "one number, as the class that restores pictures takes it", "a list")
    cfg.multiple("image_size", side, "patch_size", patch)
    layers = vit.layer(cfg, norm, "decoder_", USUAL)
    d_model = cfg.size("decoder_hidden_size", absent=USUAL["hidden_size"])
    _for_sines(cfg, "decoder_hidden_size", d_model)
    tower = Tower(
        name="encoder",
        d_model=encoder.d_model,
        embedding=front,
        layers=encoder.layers,
        final_norm=encoder.final_norm,
        heads=(Projection(name="decoder_embed", d_out=d_model),),
    )
    restored = Restored(
        height=side, width=side, patch_height=patch, patch_width=patch, n_positions=(side // patch) ** 2 + 1
    )
    return ModelSpec(
        d_model=d_model,
        embedding=restored,
        layers=(layers,),
        final_norm=norm,
        heads=(Projection(name="pixels", d_out=patch * patch * front.channels),),
        head=None,
        encoder=tower,
    )
