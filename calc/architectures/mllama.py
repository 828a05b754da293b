"""Llama 3.2 Vision (arXiv:2407.21783, section 7): Llama 3 with gated layers that read a picture's tiles."""

from __future__ import annotations

from typing import Any

from calc.architectures.common import LAYER_NORM, activation, no_own_d_head, stack
from calc.architectures.config import Config
from calc.architectures.llama import attention, gated_mlp, rms_norm
from calc.architectures.vision import text_section, vision_section
from calc.errors import Refused
from calc.spec import (
    Attention,
    Dense,
    Embedding,
    Head,
    LayerGroup,
    Mlp,
    ModelSpec,
    Norm,
    Projector,
    QkNorm,
    SkippedLayers,
    Stages,
    Tiles,
    Tower,
)

PICTURE_TOKENS = 8
"""Rows of the token table behind those of the vocabulary, which the head has not."""
RATIOS = [[1, 1], [1, 2], [1, 3], [1, 4], [2, 1], [2, 2], [3, 1], [4, 1]]
"""What absent `supported_aspect_ratios` mean, for pictures of 4 tiles."""


def spec(cfg: Config) -> ModelSpec:
    """The head is never tied, whatever the config says: its table is shorter than that of the tokens. The tower may
    stand alone (mllama_vision_model), and so may the text (mllama_text_model)."""
    if cfg.raw["model_type"] == "mllama_text_model":
        return _text(cfg)
    if cfg.raw["model_type"] == "mllama_vision_model":
        cfg.architecture({"MllamaVisionModel": True}, usual="MllamaVisionModel")
        cfg.notes.append("all tiles of each picture are read")
        return ModelSpec(**_pictures(cfg), head=None)
    writes = cfg.architecture(
        {"MllamaForConditionalGeneration": True, "MllamaModel": False}, usual="MllamaForConditionalGeneration"
    )
    text = text_section(cfg, "mllama_text_model")
    vocab_size = text.size("vocab_size")
    cfg.notes.append(
        "each sequence has one picture, all of whose tiles are read (text alone skips the layers of cross-attention)"
    )
    return ModelSpec(
        d_model=text.size("hidden_size"),
        vocab_size=vocab_size + PICTURE_TOKENS,
        max_seq_len=text.size("max_position_embeddings", absent=131072),
        embedding=Embedding(),
        **_layers(text),
        final_norm=rms_norm(text, 1e-5),
        head=Head(n_logits=vocab_size) if writes else None,
        encoder=Tower(
            name="encoder",
            projectors=(Projector(layers=(Dense(name="linear"),)),),
            **_pictures(vision_section(cfg, "mllama_vision_model")),
        ),
    )


def _text(cfg: Config) -> ModelSpec:
    """What reads text without its pictures, which runs no layer that looks at them."""
    writes = cfg.architecture({"MllamaForCausalLM": True, "MllamaTextModel": False}, usual="MllamaForCausalLM")
    vocab_size, d_model, mixer, channel = cfg.size("vocab_size"), cfg.size("hidden_size"), _mixer(cfg), gated_mlp(cfg)
    norm, n_layers = rms_norm(cfg, 1e-5), cfg.layers("num_hidden_layers")
    n_crossed = len(crossed := _crossed(cfg, n_layers))
    if n_crossed == n_layers:
        raise Refused(f"{cfg.where}cross_attention_layers", f"fewer than {n_layers} layers", sorted(crossed))
    skipped = None
    if n_crossed:
        heads = {"n_heads": mixer.n_heads, "n_kv_heads": mixer.kv_heads, "d_head": d_model // mixer.n_heads}
        skipped = SkippedLayers(count=n_crossed, d_ff=cfg.size("intermediate_size"), **heads)
    cfg.notes.append("texts without pictures, which skip the layers of cross-attention: these are weighed alone")
    return ModelSpec(
        d_model=d_model,
        vocab_size=vocab_size + PICTURE_TOKENS,
        max_seq_len=cfg.size("max_position_embeddings", absent=131072),
        embedding=Embedding(),
        layers=(LayerGroup(count=n_layers - n_crossed, mixer=mixer, channel=channel, norm=norm),),
        final_norm=norm,
        head=Head(n_logits=vocab_size) if writes else None,
        skipped=skipped,
    )


def _crossed(cfg: Config, n_layers: int) -> set[int]:
    """The numbers of the layers with cross-attention."""
    usual = (3, 8, 13, 18, 23, 28, 33, 38)
    return set(cfg.numbers("cross_attention_layers", absent=usual, null=usual)) & set(range(n_layers))


def _mixer(cfg: Config) -> Attention:
    """The attention of the other layers."""
    no_own_d_head(cfg)
    mixer = attention(cfg, kv_absent=8, theta=500_000.0)
    if mixer.rope.fraction != 1.0:
        raise Refused(
            f"{cfg.where}partial_rotary_factor", "1, since the class turns all of a head", mixer.rope.fraction
        )
    return mixer


def _layers(cfg: Config) -> dict[str, Any]:
    """Layers of self-attention, and those that `cross_attention_layers` numbers, which have none."""
    mixer = _mixer(cfg)
    norm = rms_norm(cfg, 1e-5)
    unlike: dict[str, Any] = {
        "position": "none",
        "rope": Attention(n_heads=1).rope,
        "causal": False,
        "qk_norm": QkNorm(norm=norm),
    }
    cross = mixer.model_copy(update=unlike)
    channel = gated_mlp(cfg)

    def layer(kind: str) -> LayerGroup:
        own: dict[str, Any] = {"mixer": mixer} if kind == "self" else {"cross": cross, "gates": True}
        return LayerGroup(count=1, channel=channel, norm=norm, **own)

    n_layers = cfg.layers("num_hidden_layers")
    crossed = _crossed(cfg, n_layers)
    if not crossed or len(crossed) == n_layers:
        raise Refused(f"{cfg.where}cross_attention_layers", f"some of {n_layers} layers", sorted(crossed))
    return stack(["cross" if i in crossed else "self" for i in range(n_layers)], layer)


def _pictures(vision: Config) -> dict[str, Any]:
    """A ViT over all tiles in two stages, the second one gated, whose results stand beside those of
    `intermediate_layers_indices`."""
    d_model, n_heads = vision.size("hidden_size"), vision.size("attention_heads")
    vision.multiple("hidden_size", d_model, "attention_heads", n_heads)
    pixels, patch = vision.size("image_size"), vision.size("patch_size", absent=14)
    usual = (3, 7, 15, 23, 30)
    beside = vision.numbers("intermediate_layers_indices", absent=usual, null=usual)
    n_first = vision.layers("num_hidden_layers")
    if not beside or max(beside) >= n_first:
        raise Refused(f"{vision.where}intermediate_layers_indices", f"some of {n_first} layers", list(beside))
    width = d_model * (1 + len(beside))
    if (given := vision.size("vision_output_dim", absent=7680)) != width:
        raise Refused(f"{vision.where}vision_output_dim", f"(1 + {len(beside)}) * hidden_size = {width}", given)
    n_tiles = vision.size("max_num_tiles", absent=4)
    layer = LayerGroup(
        name="first",
        count=n_first,
        mixer=Attention(n_heads=n_heads, causal=False, position="none"),
        channel=Mlp(
            d_ff=vision.size("intermediate_size"),
            bias=True,
            activation=activation(vision, "hidden_act", absent="gelu"),
        ),
        norm=Norm(kind="layernorm", bias=True, eps=vision.number("norm_eps", absent=1e-5)),
    )
    second = {"name": "second", "count": vision.layers("num_global_layers"), "gates": True}
    return {
        "d_model": d_model,
        "embedding": Tiles(
            n_tiles=n_tiles,
            n_shapes=_shapes(vision, n_tiles) + 1,
            height=pixels,
            width=pixels,
            patch_height=patch,
            patch_width=patch,
            channels=vision.size("num_channels", absent=3),
            norm=LAYER_NORM,
        ),
        "layers": (layer, layer.model_copy(update=second)),
        "final_norm": None,
        "stages": Stages(norm=LAYER_NORM, beside=beside),
    }


def _shapes(cfg: Config, n_tiles: int) -> int:
    """How many ways in which tiles make up a picture there are."""
    ratios = cfg.raw.get("supported_aspect_ratios")
    ratios = RATIOS if ratios is None else ratios
    where, pairs = f"{cfg.where}supported_aspect_ratios", "a list of lists of whole numbers"
    if not isinstance(ratios, list) or not ratios:
        raise Refused(where, pairs, ratios)
    if not all(isinstance(each, list) and all(type(n) is int and n > 0 for n in each) for each in ratios):
        raise Refused(where, pairs, ratios)
    if ratios == RATIOS and n_tiles != 4:
        raise Refused(f"{cfg.where}max_num_tiles", "4 beside the usual supported_aspect_ratios", n_tiles)
    return len(ratios)
