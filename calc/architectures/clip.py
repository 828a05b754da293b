"""CLIP (Radford et al. 2021, arXiv:2103.00020): a text and a vision transformer whose last vectors are compared. Each
is read alone too."""

from __future__ import annotations

from calc.architectures.common import activation
from calc.architectures.config import Config
from calc.architectures.vision import square_patches
from calc.architectures.vit import layer_norm
from calc.spec import Attention, Contrast, Embedding, LayerGroup, Mlp, ModelSpec, Projection, Stack, Tower

EPS = 1e-5


def spec(cfg: Config) -> ModelSpec:
    """Text as the main stack, pictures as the vision tower, one vector of each projected to projection_dim."""
    match cfg.raw["model_type"]:
        case "clip_text_model":
            projected = _projected(cfg, "CLIPTextModel")
            return _text(cfg, cfg.size("projection_dim", absent=512) if projected else None)
        case "clip_vision_model":
            projected = _projected(cfg, "CLIPVisionModel")
            return alone(tower(cfg, cfg.size("projection_dim", absent=512) if projected else None))
    cfg.architecture({"CLIPModel": True}, usual="CLIPModel")
    shared = cfg.size("projection_dim", absent=512)
    both = {"vision": tower(_part(cfg, "vision"), shared), "contrast": Contrast(d_contrast=shared)}
    return _text(_part(cfg, "text"), shared).model_copy(update=both)


def _projected(cfg: Config, bare: str) -> bool:
    """Whether the class of one tower brings its vector to the width in which both are compared."""
    return cfg.architecture({bare: False, f"{bare}WithProjection": True}, usual=bare)


def alone(part: Tower) -> ModelSpec:
    """A vision tower as a model of its own."""
    own = {name: getattr(part, name) for name in Stack.model_fields}
    return ModelSpec(**own, head=None)


def _text(cfg: Config, shared: int | None) -> ModelSpec:
    """shared: the width of the vector that is compared; None: nothing reads the last vectors."""
    d_text = cfg.size("hidden_size", absent=512)
    n_positions = cfg.size("max_position_embeddings", absent=77)
    cfg.notes.append(
        "text attention is causal: the cache counted is what generation would keep, which CLIP does not do"
    )
    heads = (Projection(name="text_projection", d_out=shared, bias=False, per="sequence", pool="last"),)
    return ModelSpec(
        d_model=d_text,
        vocab_size=cfg.size("vocab_size", absent=49408),
        max_seq_len=n_positions,
        embedding=Embedding(n_positions=n_positions),
        layers=(_layer(cfg, d_text, n_heads=8, d_ff=2048, causal=True),),
        final_norm=layer_norm(cfg, EPS),
        heads=() if shared is None else heads,
        head=None,
    )


def _part(cfg: Config, name: str) -> Config:
    """The config of one tower. Where an older NAME_config_dict is given, it alone counts, as its class completes it."""
    older = cfg.section(f"{name}_config_dict", absent=None, null=None)
    newer = cfg.section(f"{name}_config", absent=None, null=None)
    if older is None and newer is None:
        newer = Config({}, f"{cfg.where}{name}_config.")
        newer.notes = cfg.notes
    return newer if older is None else older


def tower(cfg: Config, shared: int | None) -> Tower:
    """Patches without bias, a class token, a norm before the layers and one on the class token behind them."""
    d_model = cfg.size("hidden_size", absent=768)
    image, patch = cfg.size("image_size", absent=224), cfg.size("patch_size", absent=32)
    heads = (Projection(name="visual_projection", d_out=shared, bias=False, per="sequence"),)
    return Tower(
        name="vision",
        d_model=d_model,
        embedding=square_patches(
            cfg,
            image,
            patch,
            bias=False,
            n_special=1,
            n_positions=(image // patch) ** 2 + 1,
            norm=layer_norm(cfg, EPS),
        ),
        layers=(_layer(cfg, d_model, n_heads=12, d_ff=3072, causal=False),),
        final_norm=layer_norm(cfg, EPS),
        heads=() if shared is None else heads,
    )


def _layer(cfg: Config, d_model: int, *, n_heads: int, d_ff: int, causal: bool) -> LayerGroup:
    """LayerNorm before each block, biases everywhere. n_heads, d_ff: what the tower's class takes where absent."""
    n_heads = cfg.size("num_attention_heads", absent=n_heads)
    cfg.multiple("hidden_size", d_model, "num_attention_heads", n_heads)
    act = activation(cfg, "hidden_act", absent="quick_gelu")
    return LayerGroup(
        count=cfg.size("num_hidden_layers", absent=12, limit=10**5),
        mixer=Attention(n_heads=n_heads, causal=causal, qkv_bias=True, out_bias=True, position="none"),
        channel=Mlp(d_ff=cfg.size("intermediate_size", absent=d_ff), bias=True, activation=act),
        norm=layer_norm(cfg, EPS),
    )
