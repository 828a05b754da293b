"""The vision tower of Kimi-K2.5, MoonViT: a ViT with 2-D rotary positions on a learned grid, 2 x 2 patches merged."""

from __future__ import annotations

from calc.architectures.common import activation
from calc.architectures.config import Config
from calc.architectures.vision import LAYER_NORM, plane_rope, reaches_text, vision_section, vit_layer
from calc.errors import Refused
from calc.spec import Dense, Patches, Plane, Projector, Tower

_DESCRIBED = {"merge_type": "sd2_tpool", "mm_projector_type": "patchmerger", "pos_emb_type": "divided_fixed"}
"""Key -> the one value of it that is described."""


def kimi_tower(cfg: Config, d_text: int) -> Tower:
    """The tower that `vision_config` of `cfg` describes, for a language model of width d_text.

    Each size has two names: the checkpoint's own code writes `vt_hidden_size`, transformers `hidden_size`. The size of
    picture is free; the one taken here covers the learned grid of positions (64 x 64 patches of 14: 896 x 896 pixels).
    Frames in time are averaged, which costs nothing that is counted.
    """
    vision = vision_section(cfg, "kimi_k25_vision", "kimi_k25")
    for key, value in _DESCRIBED.items():
        vision.only(key, value, why="the one way that is described")
    d_model = vision.size("vt_hidden_size", "hidden_size")
    n_heads = vision.size("vt_num_attention_heads", "num_attention_heads")
    vision.multiple("hidden_size", d_model, "num_attention_heads", n_heads)
    patch = vision.size("patch_size", absent=14)
    rows = vision.size("init_pos_emb_height", "pos_emb_height", absent=64)
    columns = vision.size("init_pos_emb_width", "pos_emb_width", absent=64)
    merge = vision.numbers("merge_kernel_size", length=2, absent=(2, 2))
    if 0 in merge:
        raise Refused(f"{vision.where}merge_kernel_size", "two numbers from 1 on", list(merge))
    _same_width(cfg, vision, d_model)
    if "text_hidden_size" in vision.raw:
        reaches_text(vision, "text_hidden_size", d_text)
    layer = vit_layer(
        vision.layers("vt_num_hidden_layers", "num_hidden_layers"),
        n_heads,
        vision.size("vt_intermediate_size", "intermediate_size"),
        activation(vision, "hidden_act", absent="gelu_tanh"),
        rope=plane_rope(vision, Plane(first="column", by_turns=True)),
    )
    return Tower(
        name="vision",
        d_model=d_model,
        embedding=Patches(
            height=rows * patch,
            width=columns * patch,
            patch_height=patch,
            patch_width=patch,
            n_positions=rows * columns,
        ),
        layers=(layer,),
        final_norm=LAYER_NORM,
        projectors=(
            Projector(
                merge=merge[0] * merge[1],
                merge_rows=merge[0],
                before=LAYER_NORM.model_copy(update={"eps": cfg.number("projection_layer_norm_eps", absent=1e-5)}),
                layers=(Dense(name="fc1"), Dense(name="fc2")),
            ),
        ),
    )


def _same_width(cfg: Config, vision: Config, d_model: int) -> None:
    """The projector's first norm has a width of its own in the config, which must be the tower's. transformers takes
    1152 where there is none."""
    own = vision.size("mm_hidden_size", absent=None)
    for section, name, width in (
        (vision, "mm_hidden_size", own),
        (cfg, "projection_hidden_size", cfg.size("projection_hidden_size", absent=1152)),
    ):
        if width not in (None, d_model):
            raise Refused(section.where + name, f"the tower's width = {d_model}", width)
