"""The vision tower of Qwen3-VL and Qwen3.5 (arXiv:2511.21631): a ViT with 2-D rotary positions that merges patches."""

from __future__ import annotations

from typing import Any

from calc.architectures.common import activation
from calc.architectures.config import Config
from calc.architectures.vision import plane_rope, reaches_text, square_grid, still_patches, vision_section, vit_layer
from calc.errors import Refused
from calc.spec import Dense, Norm, Plane, Projector, Tower

NORM = Norm(kind="layernorm", bias=True, eps=1e-6)


def qwen_tower(cfg: Config, d_text: int, model_type: str, *, deepstack: bool) -> Tower:
    """The tower that `vision_config` of `cfg` describes, for a language model of width d_text.

    model_type: the family's; its towers call themselves that, or that and `_vision`. deepstack: whether the family has
    more mergers, which read the layers `deepstack_visual_indexes` (Qwen3-VL). The size of picture is free; the one
    taken here covers the learned grid of positions (48 x 48 patches of 16: 768 x 768 pixels). A still picture fills
    both frames of a patch.
    """
    vision = vision_section(cfg, f"{model_type}_vision", model_type)
    depth = vision.layers("depth")
    d_model, n_heads = vision.size("hidden_size"), vision.size("num_heads")
    vision.multiple("hidden_size", d_model, "num_heads", n_heads)
    patch = vision.size("patch_size", absent=16)
    side = vision.size("spatial_merge_size", absent=2, limit=64)
    positions = vision.size("num_position_embeddings", absent=2304)
    pixels = square_grid(vision, "num_position_embeddings", positions) * patch
    reaches_text(vision, "out_hidden_size", d_text, absent=3584)
    layers = (Dense(name="fc1"), Dense(name="fc2"))
    joined: dict[str, Any] = {"merge": side**2, "merge_rows": side, "layers": layers}
    projectors = [Projector(name="merger", before=NORM, **joined)]
    if deepstack and (depths := _depths(vision, depth)):
        projectors.append(Projector(name="deepstack", depths=depths, norm=NORM, **joined))
    return Tower(
        name="vision",
        among_tokens="in-plane",
        d_model=d_model,
        embedding=still_patches(vision, pixels, patch, n_positions=positions, resize="bilinear-corners"),
        layers=(
            vit_layer(
                depth,
                n_heads,
                vision.size("intermediate_size"),
                activation(vision, "hidden_act", absent="gelu_tanh"),
                fused=True,
                rope=plane_rope(vision, Plane()),
                norm=NORM,
            ),
        ),
        final_norm=None,
        projectors=tuple(projectors),
    )


def _depths(vision: Config, depth: int) -> tuple[int, ...]:
    """The layers that a merger of its own reads: 8, 16 and 24 where the key is absent."""
    indexes = vision.numbers("deepstack_visual_indexes", absent=(8, 16, 24))
    if len(set(indexes)) != len(indexes) or any(i >= depth for i in indexes):
        expected = f"different numbers of layers, below depth = {depth}"
        raise Refused(f"{vision.where}deepstack_visual_indexes", expected, list(indexes))
    return indexes
