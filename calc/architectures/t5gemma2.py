"""T5Gemma 2 (Zhang et al. 2025, arXiv:2512.14856): Gemma 3's layers as an encoder, which sees pictures among its
tokens, and a decoder that reads its own tokens and what the encoder gives in one attention."""

from __future__ import annotations

from typing import Any

from calc.architectures.common import alternating, layer_kinds
from calc.architectures.config import Config
from calc.architectures.gemma import gemma_attention
from calc.architectures.gemma2 import query_scale, sandwich
from calc.architectures.gemma3 import siglip
from calc.architectures.llama import rms_norm
from calc.architectures.rope import rope
from calc.errors import Refused
from calc.spec import Attention, Embedding, Head, LayerGroup, ModelSpec, QkNorm, Tower


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' T5Gemma2Config. Both sides and the head have one table, and one vector of their own
    for the end of a picture. An absent or null vision_config is refused: transformers would build SigLIP's default."""
    writes = cfg.architecture(
        {"T5Gemma2ForConditionalGeneration": True, "T5Gemma2Model": False}, usual="T5Gemma2ForConditionalGeneration"
    )
    cfg.only("is_encoder_decoder", True, why="an encoder alone has another class")
    cfg.only("tie_word_embeddings", True, why="tables of their own are not described")
    encoder, decoder = cfg.section("encoder"), cfg.section("decoder")
    text = encoder.section("text_config")
    text.only("model_type", "t5gemma2_text", why="the encoder that this family is built around")
    for each in (text, decoder):
        each.only("per_layer_config", None, why="layers with sizes of their own are not described")
    d_model, vocab_size = decoder.size("hidden_size", absent=2304), decoder.size("vocab_size", absent=262208)
    for name, own, usual in (("hidden_size", d_model, 2304), ("vocab_size", vocab_size, 262208)):
        if (other := text.size(name, absent=usual)) != own:
            raise Refused(f"{text.where}{name}", f"the decoder's {own}", other)
    end = encoder.count("eoi_token_index", absent=256000)
    softcap = decoder.number("final_logit_softcapping", absent=None, null=None)
    cfg.notes.append("windows to both sides hide tokens; as in eager attention, all products are counted")
    return ModelSpec(
        d_model=d_model,
        vocab_size=vocab_size,
        max_seq_len=decoder.size("max_position_embeddings", absent=131072),
        **_stack(decoder, d_model, Embedding(scale=d_model**0.5, own_token=end), causal=True),
        head=Head(tied=True, softcap=softcap) if writes else None,
        encoder=Tower(
            name="encoder",
            d_model=d_model,
            **_stack(text, d_model, Embedding(scale=d_model**0.5, own_token=end, shared=True), causal=False),
        ),
        vision=siglip(encoder).model_copy(update={"reader": "encoder", "among_tokens": "tokens"}),
    )


def _stack(cfg: Config, d_model: int, embedding: Embedding, *, causal: bool) -> dict[str, Any]:
    """One side: its table, its layers and the norm behind them."""
    cfg.only("attn_logit_softcapping", None, why="transformers reads the key and caps nothing")
    turning = {
        "full": rope(cfg, theta=1_000_000.0, layers="full_attention"),
        "sliding": rope(cfg, layers="sliding_attention", theta_key="rope_local_base_freq", scaled=False),
    }
    mixer = gemma_attention(
        cfg,
        heads_absent=8,
        kv_absent=4,
        qk_norm=QkNorm(norm=rms_norm(cfg, unit_offset=True)),
        scale=query_scale(cfg),
        rope=turning["full"],
        merged=causal,
    )
    cfg.multiple("hidden_size", d_model, "num_attention_heads", mixer.n_heads)
    rule = alternating(cfg.layers("num_hidden_layers"), cfg.size("sliding_window_pattern", absent=6))
    made = sandwich(cfg, mixer, layer_kinds(cfg, rule), lambda kind: {"rope": turning[kind]})
    layers: tuple[LayerGroup, ...] = made["layers"]
    return made | {
        "layers": tuple(_layer(group, causal) for group in layers),
        "embedding": embedding,
        "final_norm": rms_norm(cfg, unit_offset=True),
    }


def _layer(group: LayerGroup, causal: bool) -> LayerGroup:
    """Of an encoder's window one half lies behind a token, with the token itself, and the other half ahead."""
    assert isinstance(group.mixer, Attention)
    window, own = group.mixer.window, {}
    if not causal:
        own = {"causal": False}
        if window is not None:
            own |= {"window": (window + 1) // 2, "lopsided": window % 2 == 0}
    dropped: dict[str, Any] = {"residual_dropout": True, "outer_dropout": "both"}
    return group.model_copy(update=dropped | {"mixer": group.mixer.model_copy(update=own)})
