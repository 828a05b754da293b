"""BERT (Devlin et al. 2019, arXiv:1810.04805), and the pieces that its descendants share. As in transformers 5.

Also Megatron's BERT (Shoeybi et al. 2019, arXiv:1909.08053), whose norms stand before the blocks.
"""

from __future__ import annotations

from calc.architectures.common import activation
from calc.architectures.config import Config
from calc.spec import Activation, Attention, Embedding, Head, LayerGroup, Mlp, ModelSpec, Norm, Projection

PREFIX = {"bert": "Bert", "megatron-bert": "MegatronBert"}
"""How the names of a family's classes begin."""
BEFORE = ("megatron-bert", "xlm-roberta-xl", "roberta-prelayernorm")
"""Families whose norms stand before the blocks, with one behind all layers."""
BARE = ("megatron-bert", "xlm-roberta-xl")
"""Those of them that have no norm on the embedding."""
POOLER = Projection(name="pooler", per="sequence", activation="tanh")
Parts = tuple[str, ...]


def spec(cfg: Config) -> ModelSpec:
    """Learned positions and token types, a norm behind each block, biases everywhere, heads as `architectures` says."""
    prefix = PREFIX[cfg.raw["model_type"]]
    parts = cfg.architecture(
        {
            f"{prefix}ForMaskedLM": ("mlm",),
            f"{prefix}ForPreTraining": ("pooler", "next_sentence", "mlm"),
            "BertLMHeadModel" if prefix == "Bert" else f"{prefix}ForCausalLM": ("lm",),
            f"{prefix}Model": ("pooler",),
            f"{prefix}ForNextSentencePrediction": ("pooler", "next_sentence"),
            f"{prefix}ForSequenceClassification": ("pooler", "classifier"),
            f"{prefix}ForMultipleChoice": ("pooler", "choice"),
            f"{prefix}ForTokenClassification": ("token_classifier",),
            f"{prefix}ForQuestionAnswering": ("span",),
        },
        usual=f"{prefix}ForMaskedLM",
    )
    act = activation(cfg, "hidden_act", absent="gelu")
    embedding = tables(cfg, n_token_types=2)
    return encoder(cfg, embedding, act, heads(cfg, parts), vocabulary_head(cfg, act, parts))


def tables(
    cfg: Config, n_token_types: int, d_embed: int | None = None, position_offset: int = 0, n_positions: int = 512
) -> Embedding:
    """Tokens, positions and token types, added and normed.

    n_token_types, n_positions: what the family takes where they are absent. position_offset: rows of the position table
    before the first position's.
    """
    cfg.only("position_embedding_type", "absolute", why="relative positions were dropped from newer implementations")
    return Embedding(
        d_embed=d_embed,
        project="tokens" if d_embed is None else "sum",
        project_bias=d_embed is not None,
        n_positions=cfg.size("max_position_embeddings", absent=n_positions),
        n_token_types=cfg.size("type_vocab_size", absent=n_token_types),
        position_offset=position_offset,
        norm=None if cfg.raw["model_type"] in BARE else layer_norm(cfg),
    )


def layer_norm(cfg: Config) -> Norm:
    """The family's norm everywhere."""
    eps = 1e-5 if cfg.raw["model_type"] in ("xlm-roberta-xl", "layoutlmv3") else 1e-12
    return Norm(kind="layernorm", bias=True, eps=cfg.number("layer_norm_eps", absent=eps))


def layer(cfg: Config, act: Activation, causal: bool = False) -> LayerGroup:
    """norm(x + attention(x)), then norm(x + mlp(x)); or the norms before the blocks."""
    d_model, n_heads = cfg.size("hidden_size"), cfg.size("num_attention_heads")
    cfg.multiple("hidden_size", d_model, "num_attention_heads", n_heads)
    return LayerGroup(
        count=cfg.layers("num_hidden_layers"),
        mixer=Attention(n_heads=n_heads, causal=causal, qkv_bias=True, out_bias=True, position="none", softmax="model"),
        channel=Mlp(d_ff=cfg.size("intermediate_size"), bias=True, activation=act),
        norm=layer_norm(cfg),
        placement="pre" if cfg.raw["model_type"] in BEFORE else "post",
        residual_dropout=True,
    )


def encoder(
    cfg: Config, embedding: Embedding, act: Activation, projections: tuple[Projection, ...], head: Head | None
) -> ModelSpec:
    """The whole model. It is causal, and keeps a cache, where is_decoder says so."""
    cfg.only("add_cross_attention", False, why="an encoder's keys and values are not described by this config")
    return ModelSpec(
        d_model=cfg.size("hidden_size"),
        vocab_size=cfg.size("vocab_size"),
        max_seq_len=(embedding.n_positions or embedding.n_angles or 0) - embedding.position_offset,
        embedding=embedding,
        layers=(layer(cfg, act, causal=cfg.flag("is_decoder", absent=False)),),
        final_norm=layer_norm(cfg) if cfg.raw["model_type"] in BEFORE else None,
        heads=projections,
        head=head,
    )


def vocabulary_head(cfg: Config, act: Activation, parts: Parts) -> Head | None:
    """Dense layer, activation, norm, and the token table turned round with a bias; None where `parts` has no such head.

    For masked tokens (`mlm`) transformers computes the loss in the format of the logits, for the next (`lm`) in fp32.
    """
    if "mlm" not in parts and "lm" not in parts:
        return None
    cfg.only("tie_word_embeddings", True, why="untied, this class keeps two biases of which it uses one")
    return Head(tied=True, bias=True, transform=layer_norm(cfg), activation=act, wide_loss="lm" in parts)


def heads(cfg: Config, parts: Parts, dense: Activation = "tanh") -> tuple[Projection, ...]:
    """The projections that `parts` names, in the order they run; `mlm` and `lm` are the vocabulary head's business.

    A classifier reads the pooler, or the layer `dense` before it, where there is one. dense: its activation.
    """
    made: list[Projection] = []
    pooled = None
    for part in parts:
        match part:
            case "pooler":
                made.append(POOLER)
                pooled = "pooler"
            case "dense":
                made.append(Projection(name="dense", per="sequence", activation=dense))
                pooled = "dense"
            case "next_sentence":
                made.append(Projection(name="next_sentence", d_out=2, per="sequence", reads=pooled))
            case "classifier":
                made.append(Projection(name="classifier", d_out=cfg.labels(), per="sequence", reads=pooled))
            case "choice":
                made.append(Projection(name="classifier", d_out=1, per="sequence", reads=pooled))
            case "token_classifier":
                made.append(Projection(name="classifier", d_out=cfg.labels()))
            case "span":
                made.append(Projection(name="span", d_out=cfg.labels()))
    return tuple(made)
