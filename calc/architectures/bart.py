"""BART (Lewis et al. 2020, arXiv:1910.13461) and the encoder-decoders that descend from it or from fairseq's own.

They differ in where the norms stand, in their positions, and in what an absent key means: see `RULES`.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from calc.architectures import nllb_moe
from calc.architectures.common import LAYER_NORM, activation, stack
from calc.architectures.config import Config
from calc.spec import Activation, Attention, Embedding, Head, LayerGroup, Mlp, ModelSpec, Projection, Tower

OFFSET = 2
"""Rows of BART's position table before the first position."""


class Rule(NamedTuple):
    """What tells one family from the others.

    prefix: how the names of its classes begin. heads: how those that are described end, beside `Model`, and what each
    has. before: norms stand before the blocks, and one behind all layers. positions: a learned table with rows before
    the first position, or without; a table of sinusoids; or sinusoids that are no parameters. embed_norm: the embedding
    is normed; early: the decoder's before it adds its positions. n_positions, scaled, labels, act: what the absent keys
    max_position_embeddings, scale_embedding, num_labels and activation_function mean. sparse: some layers have experts.
    as_weight: as in Mlp.
    """

    prefix: str
    heads: dict[str, str]
    before: bool = False
    positions: Literal["offset", "learned", "table", "fixed"] = "offset"
    embed_norm: bool | Literal["early"] = True
    n_positions: int = 1024
    scaled: bool = False
    labels: int = 2
    act: Activation = "gelu"
    sparse: bool = False
    as_weight: bool = False


WRITES = {"ForConditionalGeneration": "lm"}
CLASSIFIES = {"ForSequenceClassification": "classifier"}
ALL = WRITES | CLASSIFIES | {"ForQuestionAnswering": "span"}
RULES = {
    "bart": Rule("Bart", ALL, labels=3),
    "mbart": Rule("MBart", ALL, before=True),
    "mvp": Rule("Mvp", ALL),
    "plbart": Rule("PLBart", WRITES | CLASSIFIES, scaled=True),
    "pegasus": Rule("Pegasus", WRITES, before=True, positions="table", embed_norm=False),
    "marian": Rule("Marian", {"MTModel": "lm"}, positions="table", embed_norm=False),
    "m2m_100": Rule("M2M100", WRITES, True, positions="fixed", embed_norm=False, scaled=True, act="relu"),
    "nllb-moe": Rule("NllbMoe", WRITES, True, "fixed", False, scaled=True, act="relu", sparse=True, as_weight=True),
    "blenderbot": Rule("Blenderbot", WRITES, True, positions="learned", embed_norm=False, n_positions=128),
    "blenderbot-small": Rule("BlenderbotSmall", WRITES, positions="learned", embed_norm="early", n_positions=512),
}
"""mBART: Liu et al. 2020 (arXiv:2001.08210). MVP: Tang et al. 2022 (arXiv:2206.12131). PLBART: Ahmad et al. 2021
(arXiv:2103.06333). Pegasus: Zhang et al. 2020 (arXiv:1912.08777). Marian: Junczys-Dowmunt et al. 2018
(arXiv:1804.00344). M2M-100 and NLLB: Fan et al. 2020 (arXiv:2010.11125), NLLB Team 2022 (arXiv:2207.04672).
Blenderbot and Blenderbot-small: Roller et al. 2020 (arXiv:2004.13637)."""


def spec(cfg: Config) -> ModelSpec:
    """Biases everywhere, and one table for encoder, decoder and head."""
    rule = RULES[cfg.raw["model_type"]]
    classes = {f"{rule.prefix}{end}": kind for end, kind in (rule.heads | {"Model": "none"}).items()}
    kind = cfg.architecture(classes, usual=next(iter(classes)))
    refuse_variants(cfg, rule)
    d_model = cfg.size("d_model")
    n_positions = cfg.size("max_position_embeddings", absent=rule.n_positions)
    act = activation(cfg, "activation_function", absent=rule.act)
    embedding = Embedding(
        **_positions(cfg, rule, n_positions),
        scale=d_model**0.5 if cfg.flag("scale_embedding", absent=rule.scaled) else 1.0,
        norm=LAYER_NORM if rule.embed_norm else None,
        norm_of="tokens" if rule.embed_norm == "early" else "sum",
    )
    final_norm = LAYER_NORM if rule.before else None
    return ModelSpec(
        d_model=d_model,
        vocab_size=cfg.size("vocab_size"),
        max_seq_len=n_positions,
        embedding=embedding,
        **_layers(cfg, "decoder", d_model, act, rule),
        final_norm=final_norm,
        heads=heads(cfg, kind, rule),
        head=Head(tied=True, wide_loss=False) if kind == "lm" else None,
        encoder=Tower(
            name="encoder",
            d_model=d_model,
            embedding=embedding.model_copy(update={"shared": True, "norm_of": "sum"}),
            **_layers(cfg, "encoder", d_model, act, rule),
            final_norm=final_norm,
        ),
    )


def refuse_variants(cfg: Config, rule: Rule) -> None:
    """Keys of older implementations that change the model, where they are not as in the family, and untied tables."""
    cfg.only("tie_word_embeddings", True, why="untied, this class keeps a third table that nothing reads")
    cfg.only("normalize_before", rule.before, why="where this family's norms stand")
    cfg.only("add_final_layer_norm", rule.before, why="this family's norm behind its layers")
    cfg.only("normalize_embedding", bool(rule.embed_norm), why="this family's norm of its embedding")
    cfg.only("static_position_embeddings", rule.positions in ("table", "fixed"), why="this family's positions")
    cfg.only("use_prompt", False, why="learned prompts in all layers are not described")
    cfg.only("share_encoder_decoder_embeddings", True, why="encoder and decoder with a table each are not described")
    cfg.only("decoder_vocab_size", None, cfg.size("vocab_size"), why="one vocabulary for both sides")


def _positions(cfg: Config, rule: Rule, n_positions: int) -> dict[str, Any]:
    """Fields of Embedding."""
    match rule.positions:
        case "offset":
            return {"n_positions": n_positions + OFFSET, "position_offset": OFFSET}
        case "learned":
            return {"n_positions": n_positions}
        case "table":
            return {"n_positions": n_positions, "trained_positions": False, "sinusoid": "apart"}
        case "fixed":
            # fairseq counts from behind the position of padding.
            offset = cfg.count("pad_token_id", absent=1) + 1
            return {"sinusoidal": True, "sinusoid": "halves", "position_offset": offset}


def _layers(cfg: Config, side: str, d_model: int, act: Activation, rule: Rule) -> dict[str, Any]:
    """`layers` and `schedule` of the encoder or the decoder, each with sizes of its own."""
    dense = layer(cfg, side, d_model, act, rule)
    if not rule.sparse:
        return {"layers": (dense,)}
    kinds = nllb_moe.kinds(cfg, side, dense.count)
    experts = nllb_moe.experts(cfg, side, act)
    return stack(kinds, lambda kind: dense if kind == "dense" else dense.model_copy(update={"channel": experts}))


def layer(cfg: Config, side: str, d_model: int, act: Activation, rule: Rule) -> LayerGroup:
    """A dense layer of one side, as often as the side has layers."""
    n_heads = cfg.size(f"{side}_attention_heads")
    cfg.multiple("d_model", d_model, f"{side}_attention_heads", n_heads)
    attention = Attention(
        n_heads=n_heads, causal=side == "decoder", qkv_bias=True, out_bias=True, position="none", softmax="model"
    )
    return LayerGroup(
        name="decoder" if side == "decoder" else "layers",
        count=cfg.layers(f"{side}_layers"),
        mixer=attention,
        cross=attention.model_copy(update={"causal": False}) if side == "decoder" else None,
        channel=Mlp(d_ff=cfg.size(f"{side}_ffn_dim"), bias=True, activation=act, as_weight=rule.as_weight),
        norm=LAYER_NORM,
        placement="pre" if rule.before else "post",
        residual_dropout=True,
    )


def heads(cfg: Config, kind: str, rule: Rule) -> tuple[Projection, ...]:
    if kind == "classifier":
        # Read where the sequence ends, which without padding is its last token.
        dense = Projection(name="dense", per="sequence", pool="last", activation="tanh")
        labels = cfg.labels(absent=rule.labels)
        return dense, Projection(name="classifier", d_out=labels, per="sequence", reads="dense")
    return (Projection(name="span", d_out=2),) if kind == "span" else ()
