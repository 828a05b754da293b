"""Jina embeddings 3 (Sturua et al. 2024, arXiv:2409.10173): BERT's layers with rotary positions in place of a table.

Also GTE (Zhang et al. 2024, arXiv:2407.19669) and Nomic's BERT (Nussbaum et al. 2024, arXiv:2402.01613), whose MLPs are
gated. As in transformers 5.23.
"""

from __future__ import annotations

from typing import NamedTuple

from calc.architectures.bert import Parts, heads
from calc.architectures.common import activation, d_head
from calc.architectures.config import Config
from calc.architectures.rope import rope
from calc.spec import Activation, Attention, Embedding, Head, LayerGroup, Mlp, ModelSpec, Norm


class Kind(NamedTuple):
    """How a family differs: the beginning of its classes' names, whether its bare model and its classifier have BERT's
    pooler, and what it takes for keys that are absent."""

    prefix: str
    pooled: bool
    theta: float
    eps: float
    n_token_types: int
    max_seq_len: int


KINDS = {
    "jina_embeddings_v3": Kind("JinaEmbeddingsV3", True, 20_000.0, 1e-5, 1, 8194),
    "gte": Kind("Gte", False, 160_000.0, 1e-12, 1, 8192),
    "nomic_bert": Kind("NomicBert", False, 1000.0, 1e-12, 2, 2048),
}


def spec(cfg: Config) -> ModelSpec:
    """Token types, a norm on their sum with the tokens, and one behind each block; heads as `architectures` says."""
    family = str(cfg.raw["model_type"])
    kind = KINDS[family]
    parts = cfg.architecture(_classes(kind), usual=f"{kind.prefix}ForMaskedLM")
    norm = Norm(kind="layernorm", bias=True, eps=cfg.number("layer_norm_eps", absent=kind.eps))
    act = activation(cfg, "hidden_act", absent="silu" if family == "nomic_bert" else "gelu")
    n_heads = cfg.size("num_attention_heads")
    biased = family != "nomic_bert"
    mixer = Attention(
        n_heads=n_heads,
        d_head=d_head(cfg, cfg.size("hidden_size"), n_heads),
        causal=False,
        qkv_bias=biased,
        out_bias=biased,
        rope=rope(cfg, theta=kind.theta),
        softmax="model",
    )
    layer = LayerGroup(
        count=cfg.layers("num_hidden_layers"),
        mixer=mixer,
        channel=_channel(cfg, family, act),
        norm=norm,
        placement="post",
        residual_dropout=True,
    )
    return ModelSpec(
        d_model=cfg.size("hidden_size"),
        vocab_size=cfg.size("vocab_size"),
        max_seq_len=cfg.size("max_position_embeddings", absent=kind.max_seq_len),
        embedding=Embedding(n_token_types=_token_types(cfg, family, kind), norm=norm),
        layers=(layer,),
        final_norm=None,
        heads=heads(cfg, parts),
        head=_vocabulary_head(cfg, family, act, norm) if parts == ("mlm",) else None,
    )


def _classes(kind: Kind) -> dict[str, Parts]:
    own: dict[str, Parts] = {
        "ForMaskedLM": ("mlm",),
        "Model": ("pooler",) if kind.pooled else (),
        "ForSequenceClassification": ("dense" if kind.pooled else "pooler", "classifier"),
        "ForTokenClassification": ("token_classifier",),
    }
    if kind.pooled:
        own["ForQuestionAnswering"] = ("span",)
    return {kind.prefix + ending: parts for ending, parts in own.items()}


def _channel(cfg: Config, family: str, act: Activation) -> Mlp:
    """GTE's gated block has a bias on its last matrix alone."""
    gated = family != "jina_embeddings_v3"
    return Mlp(
        d_ff=cfg.size("intermediate_size"),
        gated=gated,
        bias=not gated,
        down_bias=True if family == "gte" else None,
        activation=act,
        dropout=family == "gte",
    )


def _token_types(cfg: Config, family: str, kind: Kind) -> int | None:
    """Rows of the segments' table; GTE has none where there are none."""
    read = cfg.count if family == "gte" else cfg.size
    return read("type_vocab_size", absent=kind.n_token_types) or None


def _vocabulary_head(cfg: Config, family: str, act: Activation, norm: Norm) -> Head:
    """As BERT's. GTE's class keeps one bias, so that it may be untied."""
    if family != "gte":
        cfg.only("tie_word_embeddings", True, why="untied, this class keeps two biases of which it uses one")
    tied = cfg.flag("tie_word_embeddings", absent=True)
    own = act if family == "nomic_bert" else "gelu"
    return Head(tied=tied, bias=True, transform=norm, activation=own, wide_loss=False)
