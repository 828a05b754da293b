"""I-JEPA's encoder (Assran et al. 2023, arXiv:2301.08243): a ViT without a class token."""

from __future__ import annotations

from calc.architectures.config import Config
from calc.architectures.vit import classifier, encoder, pictures
from calc.spec import ModelSpec


def spec(cfg: Config) -> ModelSpec:
    """Learned positions; a classifier reads the mean of all patches."""
    classes = {"IJepaModel": False, "IJepaForImageClassification": True}
    heads = (classifier(cfg, "classifier", pool="mean"),) if cfg.architecture(classes, usual="IJepaModel") else ()
    return encoder(cfg, pictures(cfg, n_special=0), heads)
