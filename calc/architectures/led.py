"""LED (Beltagy et al. 2020, arXiv:2004.05150, section 7): BART whose encoder attends within a band."""

from __future__ import annotations

from typing import Any

from calc.architectures.bart import WRITES, Rule, heads, layer, refuse_variants
from calc.architectures.common import LAYER_NORM, activation, stack
from calc.architectures.config import Config
from calc.errors import Refused
from calc.spec import BandAttention, Embedding, Head, LayerGroup, ModelSpec, Tower

RULE = Rule("LED", WRITES | {"ForQuestionAnswering": "span"}, positions="learned")


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' LEDConfig: tokens see 256 others on both sides, 16384 positions for the encoder and
    1024 for the decoder. No token of the source sees all others, which is what the class does unasked."""
    classes = {f"LED{end}": kind for end, kind in (RULE.heads | {"Model": "none"}).items()}
    kind = cfg.architecture(classes, usual=next(iter(classes)))
    refuse_variants(cfg, RULE)
    cfg.only("scale_embedding", False, why="this class does not scale")
    d_model, act = cfg.size("d_model"), activation(cfg, "activation_function", absent="gelu")
    decoder = layer(cfg, "decoder", d_model, act, RULE)
    n_positions = cfg.size("max_decoder_position_embeddings", absent=1024)
    cfg.notes.append(
        "no token of the source sees all others (global_attention_mask): what reads them is counted as parameters alone"
    )
    return ModelSpec(
        d_model=d_model,
        vocab_size=cfg.size("vocab_size"),
        max_seq_len=n_positions,
        embedding=Embedding(n_positions=n_positions, norm=LAYER_NORM),
        layers=(decoder,),
        final_norm=None,
        heads=heads(cfg, kind, RULE),
        head=Head(tied=True, wide_loss=False) if kind == "lm" else None,
        encoder=_encoder(cfg, layer(cfg, "encoder", d_model, act, RULE), d_model),
    )


def _encoder(cfg: Config, plain: LayerGroup, d_model: int) -> Tower:
    layers, widest = in_bands(cfg, plain, d_model, "encoder_attention_heads")
    positions = cfg.size("max_encoder_position_embeddings", absent=16384)
    return Tower(
        name="encoder",
        d_model=d_model,
        embedding=Embedding(n_positions=positions, norm=LAYER_NORM, shared=True, multiple=widest),
        **layers,
        final_norm=None,
    )


def in_bands(cfg: Config, plain: LayerGroup, d_model: int, heads: str) -> tuple[dict[str, Any], int]:
    """Layers like `plain` whose attention stays within a band, as wide in each as `attention_window` says, and the
    widest of these windows, of which sequences have to be multiples. heads: the key that counts them."""
    n_heads = cfg.size(heads)
    windows = _windows(cfg, plain.count)
    if n_heads == d_model:
        expected = f"fewer than d_model = {d_model}: PyTorch multiplies heads of one number otherwise"
        raise Refused(f"{cfg.where}{heads}", expected, n_heads)

    def group(name: str) -> LayerGroup:
        mixer = BandAttention(n_heads=n_heads, d_head=d_model // n_heads, reach=int(name.rpartition("_")[2]) // 2)
        return plain.model_copy(update={"mixer": mixer})

    return stack([f"window_{window}" for window in windows], group), max(windows)


def _windows(cfg: Config, n_layers: int) -> tuple[int, ...]:
    """How many tokens the layers see, both sides together, each a part of the widest."""
    if isinstance(cfg.raw.get("attention_window"), list):
        windows = cfg.numbers("attention_window", length=n_layers)
    else:
        windows = (cfg.size("attention_window", absent=512),) * n_layers
    widest = max(windows)
    if any(not window or window % 2 or widest % window for window in windows):
        expected = f"even numbers that divide the widest, {widest}"
        raise Refused(f"{cfg.where}attention_window", expected, cfg.raw.get("attention_window"))
    return windows
