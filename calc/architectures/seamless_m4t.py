"""SeamlessM4T and its second version (Barrault et al. 2023, arXiv:2308.11596, arXiv:2312.05187), as they translate
into text: an encoder of text as NLLB's, or one that hears, and a decoder as NLLB's. What makes units of speech of words
and what makes sound of these is not described.
"""

from __future__ import annotations

from calc.architectures.bart import RULES, layer
from calc.architectures.common import LAYER_NORM, activation
from calc.architectures.config import Config
from calc.architectures.seamless_speech import speech_encoder
from calc.errors import Refused
from calc.spec import Embedding, Head, LayerGroup, ModelSpec, Tower

PREFIX = {"seamless_m4t": "SeamlessM4T", "seamless_m4t_v2": "SeamlessM4Tv2"}
"""How the names of a family's classes begin."""


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' SeamlessM4Tv2Config; sinusoids that are no parameters, one table for encoder of
    text, decoder and head. Errors: Refused for a class that speaks, as that of published configs does."""
    prefix = PREFIX[cfg.raw["model_type"]]
    classes = {f"{prefix}ForTextToText": "reads", f"{prefix}ForSpeechToText": "hears"}
    if (named := cfg.named_class()) is not None and named not in classes:
        why = "translating into text; what speaks is not described"
        raise Refused(f"{cfg.where}architectures", f"{' or '.join(classes)} ({why})", named)
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
        max_seq_len=cfg.size("max_position_embeddings", absent=4096),
        embedding=embedding,
        layers=(_side(cfg, "decoder", d_model),),
        final_norm=LAYER_NORM,
        head=Head(tied=True, wide_loss=False),
        encoder=_text_encoder(cfg, d_model, embedding)
        if kind == "reads"
        else speech_encoder(cfg, second=prefix == "SeamlessM4Tv2"),
    )


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
