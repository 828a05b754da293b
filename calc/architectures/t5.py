"""T5 and T5 v1.1 (Raffel et al. 2020, arXiv:1910.10683; Shazeer 2020), Flan-T5, mT5 (arXiv:2010.11934), UMT5
(arXiv:2304.09151), and the pieces that Switch Transformers share. Rules as in transformers 5."""

from __future__ import annotations

from typing import Any

from calc.architectures.common import activation
from calc.architectures.config import Config
from calc.errors import Refused
from calc.spec import (
    Activation,
    Attention,
    Buckets,
    Embedding,
    Head,
    LayerGroup,
    Mlp,
    ModelSpec,
    Norm,
    Projection,
    Tower,
)

OWN_TABLES = {"umt5"}
"""Families in which every layer has a table of relative positions of its own."""
GATED: dict[str, Activation] = {"gated-gelu": "gelu_new", "gated-silu": "silu", "gated-relu": "relu"}
CLASSES = {
    "ForConditionalGeneration": "lm",
    "Model": "none",
    "EncoderModel": "encoder",
    "ForQuestionAnswering": "span",
    "ForSequenceClassification": "classifier",
    "ForTokenClassification": "token_classifier",
}
DROPOUT: dict[str, Any] = {"residual_dropout": True, "outer_dropout": "both"}
PREFIX = {"t5": "T5", "mt5": "MT5", "umt5": "UMT5"}


def spec(cfg: Config) -> ModelSpec:
    """RMSNorm before each block, bucketed relative positions, no biases; one table for encoder, decoder and head."""
    model_type = cfg.raw["model_type"]
    prefix = PREFIX[model_type]
    classes = {prefix + name: kind for name, kind in CLASSES.items()}
    if model_type == "t5":
        classes["T5WithLMHeadModel"] = "lm"
    kind = cfg.architecture(classes, usual=f"{prefix}ForConditionalGeneration")
    channel = feed_forward(cfg, absent="relu" if model_type == "t5" else "gated-gelu")
    n_layers = cfg.layers("num_layers")
    attention = relative_attention(cfg, shared=model_type not in OWN_TABLES)

    def layers(count: int, cross: bool) -> tuple[LayerGroup, ...]:
        return (layer(attention, channel, rms(cfg), count, cross),)

    if kind in ("encoder", "token_classifier"):
        cfg.only("is_decoder", False, None, why="these classes would build a decoder's layers instead")
        heads = (Projection(name="classifier", d_out=cfg.labels()),) if kind == "token_classifier" else ()
        return encoder_alone(cfg, layers(n_layers, False), heads)
    n_decoder = cfg.size("num_decoder_layers", absent=None, null=None)
    if n_decoder is None:
        cfg.under_own_name("num_layers", "num_decoder_layers")
        n_decoder = n_layers
    head = vocabulary_head(cfg) if kind == "lm" else None
    return encoder_decoder(cfg, layers(n_layers, False), layers(n_decoder, True), head, _heads(cfg, kind))


def encoder_decoder(
    cfg: Config,
    encoder: tuple[LayerGroup, ...],
    decoder: tuple[LayerGroup, ...],
    head: Head | None,
    heads: tuple[Projection, ...] = (),
    schedules: tuple[tuple[str, ...] | None, tuple[str, ...] | None] = (None, None),
) -> ModelSpec:
    """A whole model. Positions are relative, so it has no longest sequence of its own."""
    d_model = cfg.size("d_model")
    return ModelSpec(
        d_model=d_model,
        vocab_size=cfg.size("vocab_size"),
        layers=decoder,
        schedule=schedules[1],
        final_norm=rms(cfg),
        heads=heads,
        head=head,
        encoder=Tower(
            name="encoder",
            d_model=d_model,
            embedding=Embedding(shared=True),
            layers=encoder,
            schedule=schedules[0],
            final_norm=rms(cfg),
        ),
    )


def rms(cfg: Config) -> Norm:
    """The family's norm everywhere."""
    return Norm(eps=cfg.number("layer_norm_epsilon", absent=1e-6), widened=False)


def relative_attention(cfg: Config, shared: bool) -> Attention:
    """Multi-head attention with a head width of its own and learned buckets of distances."""
    buckets = Buckets(
        n_buckets=cfg.size("relative_attention_num_buckets", absent=32),
        max_distance=cfg.size("relative_attention_max_distance", absent=128),
        shared=shared,
    )
    n_heads, d_head = cfg.size("num_heads"), cfg.size("d_kv", absent=64)
    # Scores are not divided by sqrt(d_head): the initial weights are smaller instead.
    return Attention(
        n_heads=n_heads, d_head=d_head, causal=False, position="none", buckets=buckets, scale=1.0, softmax="model"
    )


def layer(attention: Attention, channel: Mlp, norm: Norm, count: int, cross: bool) -> LayerGroup:
    """One kind of layer; in the decoder (`cross`) it is causal and reads the encoder, without positions."""
    mixer = attention.model_copy(update={"causal": True}) if cross else attention
    reads = attention.model_copy(update={"buckets": None}) if cross else None
    name = "decoder" if cross else "layers"
    return LayerGroup(name=name, count=count, mixer=mixer, cross=reads, channel=channel, norm=norm, **DROPOUT)


def feed_forward(cfg: Config, absent: str) -> Mlp:
    """`relu` in T5, `gated-gelu` in v1.1: the word behind `gated-` is the activation."""
    word = cfg.choice("feed_forward_proj", among={w: w for w in (*GATED, "relu", "gelu", "silu")}, absent=absent)
    gated = word in GATED
    act = activation(cfg, "dense_act_fn", absent=_activation(word))
    cfg.only("is_gated_act", gated, why=f"feed_forward_proj is {word}")
    if act != _activation(word):
        raise Refused("dense_act_fn", f"the activation of feed_forward_proj = {word}", act)
    return Mlp(d_ff=cfg.size("d_ff"), gated=gated, activation=act, dropout=True, as_weight=True)


def _activation(word: str) -> Activation:
    plain: dict[str, Activation] = {"relu": "relu", "gelu": "gelu", "silu": "silu"}
    return plain[word] if word in plain else GATED[word]


def vocabulary_head(cfg: Config) -> Head:
    """The head; meant to be the token table, it reads vectors divided by sqrt(d_model), but for mT5's."""
    family, d_model = cfg.raw["model_type"], cfg.size("d_model")
    meant = family == "umt5" or (family != "mt5" and cfg.flag("tie_word_embeddings", absent=True))
    if family in ("t5", "longt5"):
        meant = cfg.flag("scale_decoder_outputs", absent=meant)
    table = tied(cfg)
    return Head(tied=table, scale=d_model**-0.5 if meant and table else 1.0, wide_loss=False)


def tied(cfg: Config) -> bool:
    """Whether the head is the token table. A config that says false is read in two ways, see `Config.tying`."""
    if cfg.flag("tie_word_embeddings", absent=True):
        return True
    if cfg.tying == "checkpoint":
        return False
    cfg.notes.append(
        "tie_word_embeddings is false, but transformers 5 ties this family's head all the same; "
        "the checkpoint holds it as a second table, which --tying checkpoint counts"
    )
    return True


def _heads(cfg: Config, kind: str) -> tuple[Projection, ...]:
    if kind == "classifier":
        # Read where the sequence ends, which without padding is its last token.
        dense = Projection(name="dense", per="sequence", pool="last", activation="tanh")
        return dense, Projection(name="classifier", d_out=cfg.labels(), per="sequence", reads="dense")
    return (Projection(name="span", d_out=cfg.labels()),) if kind == "span" else ()


def encoder_alone(
    cfg: Config,
    layers: tuple[LayerGroup, ...],
    heads: tuple[Projection, ...] = (),
    schedule: tuple[str, ...] | None = None,
) -> ModelSpec:
    """The encoder as a model of its own."""
    return ModelSpec(
        d_model=cfg.size("d_model"),
        vocab_size=cfg.size("vocab_size"),
        layers=layers,
        schedule=schedule,
        final_norm=rms(cfg),
        heads=heads,
        head=None,
    )
