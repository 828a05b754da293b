"""GLM-5.3's vision tower (Zhipu 2026): rotary positions alone, normed queries and keys, gated MLPs whose halves are
cut, and 2 x 2 patches that become one and pass another such MLP."""

from __future__ import annotations

from calc.architectures.config import Config
from calc.architectures.vision import plane_rope, reaches_text, still_patches, vision_section
from calc.spec import (
    Attention,
    Dense,
    GateClamp,
    LayerGroup,
    Mlp,
    Norm,
    Patches,
    Plane,
    Projector,
    QkNorm,
    Tower,
)


def glm5_tower(cfg: Config, d_text: int) -> Tower:
    """Defaults as in transformers' Glm5NextVisionConfig. Pictures of any size; image_size is that of the usual one."""
    vision = vision_section(cfg, "glm5_next_vision")
    d_model = vision.size("hidden_size")
    reaches_text(vision, "out_hidden_size", d_text, absent=1536)
    norm = Norm(eps=vision.number("rms_norm_eps", absent=1e-5))
    merge = vision.size("spatial_merge_size", absent=2, limit=64)
    return Tower(
        name="vision",
        among_tokens="in-plane",
        d_model=d_model,
        embedding=_pictures(vision),
        layers=(_layer(vision, d_model, norm),),
        final_norm=norm,
        projectors=(
            Projector(
                merge=merge**2,
                merge_rows=merge,
                layers=(Dense(name="downsample", d_out=d_text), Dense(name="proj", bias=False, activated=False)),
                after=Norm(kind="layernorm", bias=True, eps=1e-5),
                channel=_mlp(vision, vision.size("projection_intermediate_size", absent=10240), bias=False),
            ),
        ),
    )


def _layer(vision: Config, d_model: int, norm: Norm) -> LayerGroup:
    n_heads, bias = vision.size("num_heads"), vision.flag("attention_bias", absent=True)
    d_head = vision.multiple("hidden_size", d_model, "num_heads", n_heads)
    vision.only("head_dim", None, d_head, why="heads of this family have no width of their own")
    mixer = Attention(
        n_heads=n_heads,
        causal=False,
        qkv_bias=bias,
        out_bias=bias,
        fused=True,
        qk_norm=QkNorm(norm=norm),
        rope=plane_rope(vision, Plane()),
    )
    channel = _mlp(vision, vision.size("intermediate_size"), bias=bias)
    return LayerGroup(count=vision.layers("depth"), mixer=mixer, channel=channel, norm=norm)


def _mlp(vision: Config, d_ff: int, *, bias: bool) -> Mlp:
    vision.only("hidden_act", "silu", "swish", why="of a gate that is cut no other activation is described")
    clamp = GateClamp(limit=vision.number("swiglu_limit", absent=10.0), alpha=1.0, shift=0.0)
    return Mlp(d_ff=d_ff, gated=True, bias=bias, activation="silu", clamp=clamp)


def _pictures(vision: Config) -> Patches:
    pixels, patch = vision.size("image_size", absent=336), vision.size("patch_size", absent=14)
    return still_patches(vision, pixels, patch, n_positions=None)
