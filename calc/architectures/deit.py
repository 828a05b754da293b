"""DeiT (Touvron et al. 2021, arXiv:2012.12877): ViT with a second learned token, taught by another network."""

from __future__ import annotations

from calc.architectures import vit
from calc.architectures.config import Config
from calc.spec import ModelSpec


def spec(cfg: Config) -> ModelSpec:
    """A class and a distillation token, each with a classifier of its own where the teacher's is kept."""
    kind = cfg.architecture(
        {
            "DeiTForImageClassificationWithTeacher": "both",
            "DeiTForImageClassification": "classifier",
            "DeiTModel": "pooler",
        },
        usual="DeiTForImageClassificationWithTeacher",
    )
    if kind == "pooler":
        heads = (vit.pooler(cfg),)
    else:
        heads = (vit.classifier(cfg, "class_classifier" if kind == "both" else "classifier"),)
    if kind == "both":
        heads += (vit.classifier(cfg, "distillation_classifier", pool="second"),)
    return vit.encoder(cfg, vit.pictures(cfg, n_special=2), heads)
