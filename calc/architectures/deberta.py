"""DeBERTa (He et al. 2021, arXiv:2006.03654): BERT's layers with scores of contents against distances.

Also DeBERTa-v2 and v3 (He et al. 2023, arXiv:2111.09543), of one type. As in transformers 5.23.
"""

from __future__ import annotations

from typing import Any

from calc.architectures.bert import heads, vocabulary_head
from calc.architectures.common import activation
from calc.architectures.config import Config
from calc.errors import Refused
from calc.spec import Attention, Disentangled, Embedding, LayerGroup, Mlp, ModelSpec, Norm, Projection, SideConvolution

PREFIX = {"deberta": "Deberta", "deberta-v2": "DebertaV2"}
"""How the names of a family's classes begin."""
TERMS = ("c2p", "p2c")


def spec(cfg: Config) -> ModelSpec:
    """Contents against contents, contents against distances (c2p), distances against contents (p2c)."""
    prefix = PREFIX[cfg.raw["model_type"]]
    second = prefix == "DebertaV2"
    parts = cfg.architecture(
        {
            f"{prefix}ForMaskedLM": ("mlm",),
            f"{prefix}Model": (),
            f"{prefix}ForSequenceClassification": ("pooler", "classifier"),
            **({f"{prefix}ForMultipleChoice": ("pooler", "choice")} if second else {}),
            f"{prefix}ForTokenClassification": ("token_classifier",),
            f"{prefix}ForQuestionAnswering": ("span",),
        },
        usual=f"{prefix}ForMaskedLM",
    )
    d_model = cfg.size("hidden_size")
    for key in ("embedding_size", "pooler_hidden_size"):
        cfg.only(key, d_model, why="vectors of another width are not described")
    if not second:
        cfg.only("talking_head", False, why="heads that mix are not described")
    act = activation(cfg, "hidden_act", absent="gelu")
    norm = Norm(kind="layernorm", bias=True, eps=cfg.number("layer_norm_eps", absent=1e-7))
    n_positions = cfg.size("max_position_embeddings", absent=512)
    embedding = Embedding(
        n_positions=n_positions if cfg.flag("position_biased_input", absent=True) else None,
        n_token_types=cfg.count("type_vocab_size", absent=0) or None,
        norm=norm,
    )
    # Both heads for masked tokens have the same layers, under other names.
    cfg.flag("legacy", absent=True)
    head = vocabulary_head(cfg, act, parts)
    layer = LayerGroup(
        count=cfg.layers("num_hidden_layers"),
        mixer=_attention(cfg, d_model, n_positions, second=second),
        channel=Mlp(d_ff=cfg.size("intermediate_size"), bias=True, activation=act),
        norm=norm,
        placement="post",
        residual_dropout=True,
    )
    return ModelSpec(
        d_model=d_model,
        vocab_size=cfg.size("vocab_size"),
        max_seq_len=n_positions,
        embedding=embedding,
        layers=_beside_first(cfg, layer) if second else (layer,),
        final_norm=None,
        heads=_heads(cfg, parts),
        head=None if head is None else head.model_copy(update={"transform": norm}),
    )


def _beside_first(cfg: Config, layer: LayerGroup) -> tuple[LayerGroup, ...]:
    """The layers, of which the first may have a convolution beside it."""
    kernel = cfg.count("conv_kernel_size", absent=0)
    if not kernel:
        return (layer,)
    if kernel % 2 == 0 or kernel > 10**4:
        raise Refused(f"{cfg.where}conv_kernel_size", "an odd number of tokens, as many on both sides", kernel)
    groups = cfg.size("conv_groups", absent=1)
    cfg.multiple("hidden_size", cfg.size("hidden_size"), "conv_groups", groups)
    act = activation(cfg, "conv_act", absent="tanh")
    beside = SideConvolution(kernel=kernel, groups=groups, activation=act)
    first = layer.model_copy(update={"name": "first", "count": 1, "beside": beside})
    if layer.count == 1:
        return (first,)
    return first, layer.model_copy(update={"name": "later", "count": layer.count - 1})


def _attention(cfg: Config, d_model: int, n_positions: int, *, second: bool) -> Attention:
    """Each term that is named makes the others smaller, whether or not the layers know distances. The first version has
    queries, keys and values of each head side by side in one matrix, with biases of queries and values alone."""
    n_heads = cfg.size("num_attention_heads")
    d_head = cfg.multiple("hidden_size", d_model, "num_attention_heads", n_heads)
    if second:
        cfg.only("attention_head_size", d_head, why="heads of another width do not fit the output projection")
    terms = _terms(cfg)
    distances = None
    if cfg.flag("relative_attention", absent=False):
        distances = (_buckets if second else _distances)(cfg, terms, n_positions)
    elif second:
        cfg.only("norm_rel_ebd", "none", why="without distances, its norm would be one that nothing passes")
    return Attention(
        n_heads=n_heads,
        causal=False,
        qkv_bias=True,
        k_bias=second,
        out_bias=True,
        position="none",
        disentangled=distances,
        scale=(d_head * (1 + len(terms))) ** -0.5,
        softmax="model",
    )


def _terms(cfg: Config) -> tuple[str, ...]:
    """Which of TERMS there are: a list of them, or one word with bars between them."""
    cfg.read_keys.add("pos_att_type")
    named: Any = cfg.raw.get("pos_att_type")
    words = [word.strip() for word in named.lower().split("|")] if isinstance(named, str) else named
    words = [] if words is None else words
    if not isinstance(words, list) or not all(word in TERMS for word in words) or len(set(words)) < len(words):
        raise Refused(f"{cfg.where}pos_att_type", f"some of {', '.join(TERMS)}, each once", named)
    return tuple(words)


def _distances(cfg: Config, terms: tuple[str, ...], n_positions: int) -> Disentangled:
    """A vector for each distance, of which a short text reads those that it has."""
    if not terms:
        raise Refused(f"{cfg.where}pos_att_type", "a term that reads distances, beside relative_attention", "none")
    return Disentangled(
        n_distances=_or_none(cfg, "max_relative_positions") or n_positions,
        queries="c2p" in terms,
        keys="p2c" in terms,
        key_bias=False,
        nearest=True,
    )


def _buckets(cfg: Config, terms: tuple[str, ...], n_positions: int) -> Disentangled:
    """A vector for each distance or bucket of them, perhaps projected as contents are."""
    each = _distances(cfg, terms, n_positions)
    furthest, buckets = each.n_distances, _or_none(cfg, "position_buckets")
    if buckets is not None and not 2 <= buckets // 2 < furthest - 1:
        expected = f"from 4 to less than 2 * (max_relative_positions - 1) = {2 * (furthest - 1)}, or -1"
        raise Refused(f"{cfg.where}position_buckets", expected, buckets)
    shared = cfg.flag("share_att_key", absent=False)
    if shared and len(terms) < len(TERMS):
        raise Refused(f"{cfg.where}share_att_key", "false, unless there are both terms, since both are projected", True)
    normed = {"none": False, "layer_norm": True}
    update = {
        "n_distances": buckets or furthest,
        "max_distance": None if buckets is None else furthest,
        "own": not shared,
        "key_bias": True,
        "normed": cfg.choice("norm_rel_ebd", among=normed, absent=False),
        "nearest": False,
    }
    return each.model_copy(update=update)


def _or_none(cfg: Config, key: str) -> int | None:
    """A number above 0, or None where the config says -1 or nothing."""
    cfg.read_keys.add(key)
    return None if cfg.raw.get(key, -1) == -1 else cfg.size(key)


def _heads(cfg: Config, parts: tuple[str, ...]) -> tuple[Projection, ...]:
    """BERT's, but that the pooler has an activation of its own."""
    made = heads(cfg, parts)
    if not parts or parts[0] != "pooler":
        return made
    act = activation(cfg, "pooler_hidden_act", absent="gelu")
    return (made[0].model_copy(update={"activation": act}), *made[1:])
