"""GLM-4.1V, GLM-4.5V and GLM-4.6V (arXiv:2507.01006): GLM-4's dense language model or GLM-4.5's experts with a tower
whose merged patches pass a gated MLP."""

from __future__ import annotations

from typing import Any

from calc.architectures import glm4_moe
from calc.architectures.common import activation, no_own_d_head, without_further_tokens
from calc.architectures.config import Config
from calc.architectures.llama import attention, gated_mlp, uniform
from calc.architectures.rope import rope
from calc.architectures.vision import multimodal, plane_rope, reaches_text, still_patches, text_section, vision_section
from calc.errors import Refused
from calc.spec import (
    Attention,
    Dense,
    Head,
    LayerGroup,
    Mlp,
    ModelSpec,
    Norm,
    Patches,
    Plane,
    Projector,
    Rope,
    Tower,
)

SECTIONS = (8, 12, 12)
"""Pairs that turn by time, row and column, where mrope_section is absent."""
TOWERS = {
    "glm4v": ("glm4v_vision", "glm4v"),
    "glm4v_moe": ("glm4v_moe_vision", "glm4v_moe"),
    "glm46v": ("glm4v_vision", "glm4v_moe_vision"),
}
"""What the tower of each family calls itself; older configs name it as the family."""


def spec(cfg: Config) -> ModelSpec:
    """GLM-4.6V has the language model that text_config names, dense where it names none. Outside it, the head is tied
    where either section says so."""
    family = str(cfg.raw["model_type"])
    types = ("glm4v_text", "glm4v_moe_text") if family == "glm46v" else (f"{family}_text",)
    section = text_section(cfg, *types)
    text = (_experts if section.raw.get("model_type", types[0]) == "glm4v_moe_text" else _dense)(section)
    tower = _tower(vision_section(cfg, *TOWERS[family]), text.d_model)
    if family == "glm46v":
        return multimodal(cfg, text, tower, tied=False)
    inner = section.flag("tie_word_embeddings", absent=False)
    tied = cfg.flag("tie_word_embeddings", absent=False) or inner
    return text.model_copy(update={"head": Head(tied=tied), "vision": tower})


def _dense(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' Glm4vTextConfig. Queries, keys and values have biases."""
    no_own_d_head(cfg)
    cfg.only("attention_bias", True, why="transformers has these biases whatever this key says")
    turning = rope(cfg, interleaved=True, sections=True).model_copy(update={"joined": True})
    mixer = attention(cfg, kv_absent=2, qkv_bias=True, rope=turning)
    _in_sections(cfg, mixer)
    return uniform(cfg, mixer, gated_mlp(cfg, fused=True), eps=1e-5, max_seq_len=32768, placement="sandwich")


def _experts(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' Glm4vMoeTextConfig, which has no modules for further tokens."""
    cfg.only("use_qk_norm", False, why="transformers has no norm on queries and keys here, whatever this key says")
    without_further_tokens(cfg, "num_nextn_predict_layers")
    made = glm4_moe.spec(cfg, bias=True, max_seq_len=65536, sections=True)
    mixer = made.layers[0].mixer
    assert isinstance(mixer, Attention)
    _in_sections(cfg, mixer)
    return made.model_copy(update={"mtp": None})


def _in_sections(cfg: Config, mixer: Attention) -> None:
    """Refuse sections that are not as many pairs as turn: transformers splits angles into them."""
    given: Any = cfg.raw.get("rope_parameters") or cfg.raw.get("rope_scaling") or {}
    sections = given.get("mrope_section", list(SECTIONS))
    d_head = mixer.d_head or cfg.size("hidden_size") // mixer.n_heads
    pairs = (int(d_head * mixer.rope.fraction) + 1) // 2
    whole = isinstance(sections, list) and all(type(each) is int and each >= 0 for each in sections)
    if not whole or sum(sections) != pairs:
        where = f"{cfg.where}{'rope_parameters' if cfg.raw.get('rope_parameters') else 'rope_scaling'}.mrope_section"
        raise Refused(where, f"{pairs} pairs, a half of what turns of a head, in sections", sections)


def _tower(vision: Config, d_text: int) -> Tower:
    """RMSNorms, gated MLPs as wide as the language model, rotary and learned positions, the latter behind a norm.

    Defaults as in transformers' Glm4vVisionConfig. Pictures of any size; image_size is that of the learned positions.
    """
    d_model, n_heads = vision.size("hidden_size"), vision.size("num_heads")
    d_head = vision.multiple("hidden_size", d_model, "num_heads", n_heads)
    vision.only("head_dim", None, d_head, why="heads of this family have no width of their own")
    reaches_text(vision, "out_hidden_size", d_text, absent=4096)
    norm = Norm(eps=vision.number("rms_norm_eps", absent=1e-5))
    act = activation(vision, "hidden_act", absent="silu")
    merge = vision.size("spatial_merge_size", absent=2, limit=64)
    layer = LayerGroup(
        count=vision.layers("depth"),
        mixer=_attention(n_heads, vision.flag("attention_bias", absent=False), plane_rope(vision, Plane())),
        channel=Mlp(d_ff=d_text, gated=True, activation=act),
        norm=norm,
    )
    return Tower(
        name="vision",
        among_tokens="in-plane",
        d_model=d_model,
        embedding=_pictures(vision, norm),
        layers=(layer,),
        final_norm=norm,
        projectors=(
            Projector(
                merge=merge**2,
                merge_rows=merge,
                layers=(
                    Dense(name="downsample", d_out=d_text),
                    Dense(name="proj", bias=False, activated=False),
                ),
                after=Norm(kind="layernorm", bias=True, eps=1e-5),
                channel=Mlp(d_ff=vision.size("intermediate_size"), gated=True, activation=act),
            ),
        ),
    )


def _attention(n_heads: int, bias: bool, turning: Rope) -> Attention:
    return Attention(n_heads=n_heads, causal=False, qkv_bias=bias, fused=True, rope=turning)


def _pictures(vision: Config, norm: Norm) -> Patches:
    pixels, patch = vision.size("image_size", absent=336), vision.size("patch_size", absent=14)
    positions = (pixels // patch) ** 2
    return still_patches(vision, pixels, patch, n_positions=positions, norm=norm, norm_of="patches")
