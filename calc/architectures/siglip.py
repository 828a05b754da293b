"""SigLIP (Zhai et al. 2023, arXiv:2303.15343): a text and a vision transformer, compared pair by pair. Each is read
alone too. SigLIP 2 of fixed sizes of picture (Tschannen et al. 2025, arXiv:2502.14786) is published as the same
architecture; `siglip2` takes pictures of any shape, cut into patches already, of which it names the number."""

from __future__ import annotations

from typing import Any

from calc.architectures.clip import alone
from calc.architectures.common import activation
from calc.architectures.config import Config
from calc.architectures.vision import square_grid, square_patches, vit_layer
from calc.architectures.vit import layer_norm
from calc.errors import Refused
from calc.spec import (
    Attention,
    AttentionPool,
    Contrast,
    Embedding,
    LayerGroup,
    Mlp,
    ModelSpec,
    Projection,
    Tower,
)

EPS = 1e-6


def spec(cfg: Config) -> ModelSpec:
    """Text as the main stack, which sees both ways and is read at its last token; pictures as the vision tower.

    Defaults as in transformers' SiglipTextConfig and SiglipVisionConfig.
    """
    family, _, part = str(cfg.raw["model_type"]).partition("_")
    prefix = family.capitalize()
    match part:
        case "text_model":
            cfg.architecture({f"{prefix}TextModel": True}, usual=f"{prefix}TextModel")
            return _text(cfg, cfg.size("projection_size", absent=None, null=None))
        case "vision_model":
            cfg.architecture({f"{prefix}VisionModel": True}, usual=f"{prefix}VisionModel")
            pools = cfg.flag("vision_use_head", absent=True)
            made = alone(tower(cfg, cfg.size("hidden_size", absent=768), family))
            return made if pools else made.model_copy(update={"pool": None})
    cfg.architecture({f"{prefix}Model": True}, usual=f"{prefix}Model")
    text, vision = _part(cfg, "text", family), _part(cfg, "vision", family)
    d_text, d_vision = text.size("hidden_size", absent=768), vision.size("hidden_size", absent=768)
    shared = text.size("projection_size", absent=None, null=None) or d_text
    if shared != d_vision:
        raise Refused(f"{text.where}projection_size", f"vision_config's hidden_size = {d_vision}", shared)
    vision.only("vision_use_head", True, why="without it there is no vector to compare")
    both = {"vision": tower(vision, d_vision, family), "contrast": Contrast(d_contrast=shared, bias=True)}
    return _text(text, shared).model_copy(update=both)


def _text(text: Config, shared: int | None) -> ModelSpec:
    """shared: the width that the last token's vector is brought to; None: its own."""
    d_text = text.size("hidden_size", absent=768)
    n_positions = text.size("max_position_embeddings", absent=64)
    return ModelSpec(
        d_model=d_text,
        vocab_size=text.size("vocab_size", absent=32000),
        max_seq_len=n_positions,
        embedding=Embedding(n_positions=n_positions),
        layers=(_layer(text, d_text),),
        final_norm=layer_norm(text, EPS),
        heads=(Projection(name="text_projection", d_out=shared or d_text, per="sequence", pool="last"),),
        head=None,
    )


def _part(cfg: Config, name: str, family: str) -> Config:
    """The config of one tower, whose class has a default for every key."""
    part = cfg.section(f"{name}_config", absent=None, null=None)
    if part is None:
        part = Config({}, f"{cfg.where}{name}_config.")
        part.notes = cfg.notes
    part.only("model_type", f"{family}_{name}_model", why="the towers of this family")
    return part


def tower(cfg: Config, d_model: int, family: str) -> Tower:
    """Patches with learned positions and nothing beside them; a learned vector asks them for one."""
    patch = cfg.size("patch_size", absent=16)
    more: dict[str, Any] = {}
    if family == "siglip2":
        more["resize"] = "bilinear-smooth"
        image = patch * square_grid(cfg, "num_patches", cfg.size("num_patches", absent=256))
    else:
        image = cfg.size("image_size", absent=224)
    layer = _layer(cfg, d_model)
    assert isinstance(layer.mixer, Attention)
    assert isinstance(layer.channel, Mlp)
    return Tower(
        name="vision",
        d_model=d_model,
        embedding=square_patches(
            cfg,
            image,
            patch,
            n_positions=(image // patch) ** 2,
            **more,
        ),
        layers=(layer,),
        final_norm=layer.norm,
        pool=AttentionPool(
            attention=layer.mixer.model_copy(update={"softmax": "model"}), channel=layer.channel, norm=layer.norm
        ),
    )


def _layer(cfg: Config, d_model: int) -> LayerGroup:
    n_heads = cfg.size("num_attention_heads", absent=12)
    cfg.multiple("hidden_size", d_model, "num_attention_heads", n_heads)
    return vit_layer(
        cfg.size("num_hidden_layers", absent=12, limit=10**5),
        n_heads,
        cfg.size("intermediate_size", absent=3072),
        activation(cfg, "hidden_act", absent="gelu_tanh"),
        norm=layer_norm(cfg, EPS),
    )
