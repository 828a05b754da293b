"""Audio Spectrogram Transformer (Gong et al. 2021, arXiv:2104.01778): a ViT whose picture is a mel spectrogram."""

from __future__ import annotations

from calc.architectures import vit
from calc.architectures.config import Config
from calc.spec import ModelSpec, Patches


def spec(cfg: Config) -> ModelSpec:
    """Overlapping patches of num_mel_bins x max_length; class and distillation token, both read by the classifier."""
    kind = cfg.architecture(
        {"ASTForAudioClassification": "classifier", "ASTModel": "none"}, usual="ASTForAudioClassification"
    )
    head = vit.classifier(cfg, "classifier", before=vit.layer_norm(cfg), pool="first-two")
    return vit.encoder(cfg, _spectrogram(cfg), (head,) if kind == "classifier" else ())


def _spectrogram(cfg: Config) -> Patches:
    """One value a pixel; height is frequency, width is time. The two tokens have positions as well."""
    side = cfg.size("patch_size", absent=16)
    height, width = cfg.size("num_mel_bins", absent=128), cfg.size("max_length", absent=1024)
    down, along = cfg.size("frequency_stride", absent=10), cfg.size("time_stride", absent=10)
    return Patches(
        height=height,
        width=width,
        patch_height=side,
        patch_width=side,
        stride_height=down,
        stride_width=along,
        channels=1,
        n_special=2,
        n_positions=((height - side) // down + 1) * ((width - side) // along + 1) + 2,
    )
