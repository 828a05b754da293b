"""Qwen2.5-VL (arXiv:2502.13923): Qwen2-VL with a tower of which most layers attend within squares of patches."""

from __future__ import annotations

from calc.architectures.common import activation, stack
from calc.architectures.config import Config
from calc.architectures.qwen2_vl import merging_tower, seeing, tower_layer
from calc.architectures.vision import reaches_text
from calc.errors import Refused
from calc.spec import LayerGroup, Mlp, ModelSpec, Norm, Tower

NORM = Norm(eps=1e-6)


def spec(cfg: Config) -> ModelSpec:
    """Qwen2-VL's language model."""
    return seeing(cfg, windowed_tower)


def windowed_tower(vision: Config, d_text: int, *, fused: bool = True) -> Tower:
    """RMSNorm and gated MLPs with biases; defaults as in Qwen2_5_VLVisionConfig.

    window_size: pixels on a side of a square, whole merged patches of it. A picture whose sides are no whole squares
    has smaller ones along its edges, and is refused where it is counted. fused: whether queries, keys and values are
    one matrix.
    """
    d_model = vision.size("hidden_size")
    reaches_text(vision, "out_hidden_size", d_text, absent=3584)
    d_ff, act = vision.size("intermediate_size"), activation(vision, "hidden_act", absent="silu")
    plain = tower_layer(vision, "hidden_size", d_ff, act, NORM, fused=fused)
    plain = plain.model_copy(update={"channel": Mlp(d_ff=d_ff, gated=True, bias=True, activation=act)})
    merge, patch = vision.size("spatial_merge_size", absent=2, limit=64), vision.size("patch_size", absent=14)
    merged = vision.size("window_size", absent=112) // merge // patch
    if merged == 0:
        raise Refused(f"{vision.where}window_size", f"at least {merge * patch} pixels, a merged patch", "less")
    whole = vision.numbers("fullatt_block_indexes", absent=(7, 15, 23, 31))

    def layer(kind: str) -> LayerGroup:
        if kind == "full" or plain.mixer is None:
            return plain
        return plain.model_copy(update={"mixer": plain.mixer.model_copy(update={"squares": merged * merge})})

    layers = stack(["full" if i in whole else "squares" for i in range(plain.count)], layer)
    return merging_tower(vision, d_model, layers, NORM, side=merged * max(1, 8 // merged))
