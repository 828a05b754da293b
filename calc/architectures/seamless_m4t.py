"""SeamlessM4T and its second version (Barrault et al. 2023, arXiv:2308.11596, arXiv:2312.05187), as they translate
into text: an encoder of text as NLLB's, or one that hears, and a decoder as NLLB's. What makes units of speech of words
and sound of these is weighed, and no pass runs it.
"""

from __future__ import annotations

from typing import NamedTuple

from calc.architectures.bart import RULES, layer
from calc.architectures.common import LAYER_NORM, activation
from calc.architectures.config import Config
from calc.architectures.seamless_speaking import speech
from calc.architectures.seamless_speech import speech_encoder
from calc.spec import Embedding, Head, LayerGroup, ModelSpec, Speech, Tower

PREFIX = {"seamless_m4t": "SeamlessM4T", "seamless_m4t_v2": "SeamlessM4Tv2"}
"""How the names of a family's classes begin."""


class Kind(NamedTuple):
    """hears: its pass reads speech, not text. both: it has an encoder of either. speaks: it has what makes speech."""

    hears: bool = False
    both: bool = False
    speaks: bool = False


KINDS = {
    "ForTextToText": Kind(),
    "ForSpeechToText": Kind(hears=True),
    "ForTextToSpeech": Kind(speaks=True),
    "ForSpeechToSpeech": Kind(hears=True, speaks=True),
    "Model": Kind(both=True, speaks=True),
}
"""How the names of classes end."""


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' SeamlessM4Tv2Config; sinusoids that are no parameters, one table for encoder of
    text, decoder and head. Classes that speak are read as their forward runs, which writes text."""
    prefix = PREFIX[cfg.raw["model_type"]]
    second = prefix == "SeamlessM4Tv2"
    classes = {f"{prefix}{end}": kind for end, kind in KINDS.items()}
    kind = cfg.architecture(classes, usual=f"{prefix}ForTextToText")
    cfg.only("tie_word_embeddings", True, why="tables of their own are not described")
    d_model = cfg.size("hidden_size")
    embedding = Embedding(
        scale=d_model**0.5 if cfg.flag("scale_embedding", absent=True) else 1.0,
        sinusoidal=True,
        sinusoid="halves",
        # Counted from behind the position of padding.
        position_offset=cfg.count("pad_token_id", absent=0) + 1,
    )
    return ModelSpec(
        d_model=d_model,
        vocab_size=cfg.size("vocab_size"),
        max_seq_len=cfg.size("max_position_embeddings", absent=4096 if second else 1024),
        embedding=embedding,
        layers=(_side(cfg, "decoder", d_model),),
        final_norm=LAYER_NORM,
        head=Head(tied=True, wide_loss=False),
        encoder=speech_encoder(cfg, second=second) if kind.hears else _text_encoder(cfg, d_model, embedding),
        speech_encoder=speech_encoder(cfg, second=second, name="speech_encoder") if kind.both else None,
        speech=_speech(cfg, prefix, kind) if kind.speaks else None,
    )


def _speech(cfg: Config, prefix: str, kind: Kind) -> Speech:
    side = "an encoder of speech and what speaks are" if kind.both else "what speaks is"
    cfg.notes.append(f"passes write text, as {prefix}'s forward does: {side} weighed, and neither run nor trained")
    return speech(cfg, second=prefix == "SeamlessM4Tv2")


def _text_encoder(cfg: Config, d_model: int, embedding: Embedding) -> Tower:
    return Tower(
        name="encoder",
        d_model=d_model,
        embedding=embedding.model_copy(update={"shared": True}),
        layers=(_side(cfg, "encoder", d_model),),
        final_norm=LAYER_NORM,
    )


def _side(cfg: Config, side: str, d_model: int) -> LayerGroup:
    cfg.multiple("hidden_size", d_model, f"{side}_attention_heads", cfg.size(f"{side}_attention_heads"))
    act = activation(cfg, "activation_function", absent="relu")
    return layer(cfg, side, d_model, act, RULES["nllb-moe"])
