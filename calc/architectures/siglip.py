"""SigLIP (Zhai et al. 2023, arXiv:2303.15343): a text and a vision transformer, compared pair by pair. SigLIP 2 of
fixed sizes of picture (arXiv:2502.14786) is published as the same architecture."""

from __future__ import annotations

from calc.architectures.common import activation
from calc.architectures.config import Config
from calc.architectures.vision import square_patches, vit_layer
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
    cfg.architecture({"SiglipModel": True}, usual="SiglipModel")
    text, vision = _part(cfg, "text"), _part(cfg, "vision")
    d_text, d_vision = text.size("hidden_size", absent=768), vision.size("hidden_size", absent=768)
    shared = text.size("projection_size", absent=None, null=None) or d_text
    if shared != d_vision:
        raise Refused(f"{text.where}projection_size", f"vision_config's hidden_size = {d_vision}", shared)
    n_positions = text.size("max_position_embeddings", absent=64)
    return ModelSpec(
        d_model=d_text,
        vocab_size=text.size("vocab_size", absent=32000),
        max_seq_len=n_positions,
        embedding=Embedding(n_positions=n_positions),
        layers=(_layer(text, d_text),),
        final_norm=layer_norm(text, EPS),
        heads=(Projection(name="text_projection", d_out=shared, per="sequence", pool="last"),),
        head=None,
        vision=_vision(vision, d_vision),
        contrast=Contrast(d_contrast=shared, bias=True),
    )


def _part(cfg: Config, name: str) -> Config:
    """The config of one tower, whose class has a default for every key."""
    part = cfg.section(f"{name}_config", absent=None, null=None)
    if part is None:
        part = Config({}, f"{cfg.where}{name}_config.")
        part.notes = cfg.notes
    part.only("model_type", f"siglip_{name}_model", why="the towers of this family")
    return part


def _vision(cfg: Config, d_model: int) -> Tower:
    """Patches with learned positions and nothing beside them; a learned vector asks them for one."""
    cfg.only("vision_use_head", True, why="without it there is no vector to compare")
    image, patch = cfg.size("image_size", absent=224), cfg.size("patch_size", absent=16)
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
