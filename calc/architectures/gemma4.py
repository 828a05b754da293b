"""Gemma 4 (Google, 2026) with its eyes: the text model of `gemma4_text`, a ViT with Gemma's own layers, a projector."""

from __future__ import annotations

from math import isqrt

from calc.architectures import gemma4_text
from calc.architectures.common import activation
from calc.architectures.config import Config
from calc.architectures.vision import multimodal, plane_rope, text_section, vision_section
from calc.errors import Refused
from calc.spec import Attention, Dense, LayerGroup, Mlp, ModelSpec, Norm, Patches, Plane, Projector, QkNorm, Tower


def spec(cfg: Config) -> ModelSpec:
    """A `vision_config` that is absent or null means that there is no tower; an audio tower is refused."""
    cfg.only("audio_config", None, why="audio towers of this family are not described")
    text = gemma4_text.spec(text_section(cfg, "gemma4_text"))
    seeing = cfg.raw.get("vision_config") is not None
    return multimodal(cfg, text, _tower(cfg) if seeing else None, tied=True)


def _tower(cfg: Config) -> Tower:
    """Layers as the text model's, without biases; a table of positions for rows and one for columns; patches averaged.

    Defaults as in transformers' Gemma4VisionConfig. Clipping (`use_clipped_linears`) and standardising (`standardize`)
    have buffers and no parameters; `attention_bias` is not obeyed. Pictures keep their shape and are padded to as many
    patches as `vision_soft_tokens_per_image` (280) pooled ones need, so one with exactly that many is taken here.
    """
    vision = vision_section(cfg, "gemma4_vision")
    d_model, n_heads = vision.size("hidden_size"), vision.size("num_attention_heads")
    patch, pool = vision.size("patch_size", absent=16), vision.size("pooling_kernel_size", absent=3, limit=64)
    tokens = cfg.size("vision_soft_tokens_per_image", absent=280)
    rows = next(side for side in range(isqrt(tokens), 0, -1) if tokens % side == 0)
    norm = Norm(eps=vision.number("rms_norm_eps", absent=1e-6))
    mixer = _attention(vision, n_heads, norm)
    channel = Mlp(
        d_ff=vision.size("intermediate_size"),
        gated=True,
        activation=activation(vision, "hidden_activation", absent="gelu_tanh"),
    )
    count = vision.layers("num_hidden_layers")
    both_ways = cfg.raw["text_config"].get("use_bidirectional_attention")
    return Tower(
        name="vision",
        among_tokens="together" if both_ways == "vision" else "tokens",
        d_model=d_model,
        embedding=Patches(
            height=rows * pool * patch,
            width=tokens // rows * pool * patch,
            patch_height=patch,
            patch_width=patch,
            bias=False,
            n_positions=vision.size("position_embedding_size", absent=10240),
            position_tables=2,
            centered=True,
        ),
        layers=(LayerGroup(count=count, mixer=mixer, channel=channel, norm=norm, placement="sandwich"),),
        clipped=vision.flag("use_clipped_linears", absent=False),
        final_norm=None,
        projectors=(
            Projector(
                merge=pool**2,
                merge_rows=pool,
                join="mean-product" if pool > 1 else "mean",
                scale=d_model**0.5,
                standardized=vision.flag("standardize", absent=False),
                norm=norm.model_copy(update={"affine": False}),
                layers=(Dense(name="linear", bias=False),),
            ),
        ),
    )


def _attention(vision: Config, n_heads: int, norm: Norm) -> Attention:
    """Both ways, with norms on queries, keys and values, turned along both axes."""
    kv_heads = vision.size("num_key_value_heads")
    return Attention(
        n_heads=n_heads,
        n_kv_heads=None if kv_heads == n_heads else kv_heads,
        d_head=_d_head(vision),
        causal=False,
        qk_norm=QkNorm(norm=norm),
        v_norm=norm.model_copy(update={"affine": False}),
        rope=plane_rope(vision, Plane(first="column", apart=True), theta=100.0),
        scale=1.0,
    )


def _d_head(vision: Config) -> int:
    """A head's width; both axes turn half of it in pairs."""
    d_head = vision.size("head_dim", absent=64)
    if d_head % 4:
        raise Refused(f"{vision.where}head_dim", "a multiple of 4, for rotary positions along both axes", d_head)
    return d_head
