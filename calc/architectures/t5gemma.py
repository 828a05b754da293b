"""T5Gemma (Zhang et al. 2025, arXiv:2504.06225): Gemma 2's layers as an encoder and a decoder, which may differ in
size, each with a table of its own."""

from __future__ import annotations

from typing import Any

from calc.architectures.config import Config
from calc.architectures.gemma2 import capped_layers
from calc.architectures.llama import rms_norm
from calc.errors import Refused
from calc.spec import Attention, Embedding, Head, LayerGroup, ModelSpec, Tower


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' T5GemmaModuleConfig: 4 key-value heads, heads 256 wide, window 4096, scores capped
    at 50, every other layer full. What the encoder gives is read through softcapped scores too."""
    kind = cfg.architecture(
        {"T5GemmaForConditionalGeneration": "lm", "T5GemmaModel": "bare"}, usual="T5GemmaForConditionalGeneration"
    )
    cfg.only("is_encoder_decoder", True, why="an encoder alone has another class")
    encoder, decoder = cfg.section("encoder"), cfg.section("decoder")
    vocab_size = decoder.size("vocab_size", absent=256000)
    if (other := encoder.size("vocab_size", absent=256000)) != vocab_size:
        raise Refused(f"{encoder.where}vocab_size", f"the decoder's {vocab_size}", other)
    softcap = decoder.number("final_logit_softcapping", absent=30.0, null=None)
    head = Head(tied=cfg.flag("tie_word_embeddings", absent=True), softcap=softcap)
    cfg.notes.append("windows to both sides hide tokens; as in eager attention, all products are counted")
    return ModelSpec(
        d_model=decoder.size("hidden_size"),
        vocab_size=vocab_size,
        max_seq_len=decoder.size("max_position_embeddings", absent=8192),
        **_stack(decoder, causal=True),
        head=head if kind == "lm" else None,
        encoder=Tower(name="encoder", d_model=encoder.size("hidden_size"), **_stack(encoder, causal=False)),
    )


def _stack(cfg: Config, *, causal: bool) -> dict[str, Any]:
    """One side: its scaled table, its layers and the norm behind them. Those of the decoder read the encoder too."""
    mixer, made = capped_layers(cfg)
    layers: tuple[LayerGroup, ...] = made["layers"]
    return made | {
        "layers": tuple(_layer(group, mixer, causal) for group in layers),
        "embedding": Embedding(scale=cfg.size("hidden_size") ** 0.5),
        "final_norm": rms_norm(cfg, unit_offset=True),
    }


def _layer(group: LayerGroup, mixer: Attention, causal: bool) -> LayerGroup:
    dropped: dict[str, Any] = {"residual_dropout": True, "outer_dropout": "both"}
    if causal:
        cross = mixer.model_copy(update={"position": "none"})
        return group.model_copy(update=dropped | {"cross": cross})
    assert isinstance(group.mixer, Attention)
    window = group.mixer.window
    # So many tokens to either side, the token itself beside them.
    own = {"causal": False, "window": None if window is None else window + 1}
    return group.model_copy(update=dropped | {"mixer": group.mixer.model_copy(update=own)})
