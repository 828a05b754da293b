"""BigBird (Zaheer et al. 2020, arXiv:2007.14062): BERT whose long texts attend to blocks."""

from __future__ import annotations

from calc.architectures.bert import POOLER, encoder, heads, tables, vocabulary_head
from calc.architectures.common import activation
from calc.architectures.config import Config
from calc.spec import Activation, Attention, ModelSpec, Projection, SparseBlocks

PARTS: dict[str, tuple[str, ...]] = {
    "BigBirdForPreTraining": ("pooler", "next_sentence", "mlm"),
    "BigBirdForMaskedLM": ("unread", "mlm"),
    "BigBirdForCausalLM": ("unread", "lm"),
    "BigBirdModel": ("pooler",),
    "BigBirdForSequenceClassification": ("unread", "own"),
    "BigBirdForMultipleChoice": ("pooler", "choice"),
    "BigBirdForTokenClassification": ("unread", "token_classifier"),
}
"""What stands behind the layers of a class. Most run a pooler that nothing reads."""


def spec(cfg: Config) -> ModelSpec:
    """BERT's layers; defaults as in transformers' BigBirdConfig. Long texts attend to blocks, unless tokens see none to
    come: the class then lets them, and caches nothing."""
    parts = cfg.architecture(PARTS, usual="BigBirdForPreTraining")
    in_blocks = cfg.choice("attention_type", among={"block_sparse": True, "original_full": False}, absent=True)
    block, drawn = cfg.size("block_size", absent=64), cfg.count("num_random_blocks", absent=3)
    sparse = SparseBlocks(block=block, drawn=drawn) if in_blocks else None
    act = activation(cfg, "hidden_act", absent="gelu_new")
    embedding = tables(cfg, n_token_types=2, n_positions=4096)
    if cfg.flag("rescale_embeddings", absent=False):
        embedding = embedding.model_copy(update={"scale": cfg.size("hidden_size") ** 0.5})
    causal = cfg.flag("is_decoder", absent=False)
    if sparse is not None and not causal and not sparse.unknown:
        embedding = embedding.model_copy(update={"multiple": block, "beyond": sparse.longest})
    whole = encoder(cfg, embedding, act, _heads(cfg, parts, act), vocabulary_head(cfg, act, parts))
    group = whole.layers[0]
    assert isinstance(group.mixer, Attention)
    own = {"qkv_bias": cfg.flag("use_bias", absent=True), "sparse": sparse}
    group = group.model_copy(update={"mixer": group.mixer.model_copy(update=own)})
    length = whole.max_seq_len or 0
    if sparse is not None and sparse.longest < length:
        length = _longest(cfg, sparse, length, causal=causal)
    return whole.model_copy(update={"layers": (group,), "max_seq_len": length})


def _longest(cfg: Config, sparse: SparseBlocks, positions: int, *, causal: bool) -> int:
    """Tokens of the longest text: one that is not divided, where it is not described what longer ones do; else one of
    whole blocks, since what fills a text up has positions of its own."""
    if why := "blocks would see those to come" if causal else sparse.unknown:
        cfg.notes.append(f"texts of at most {sparse.longest} tokens, since in longer ones {why}")
        return sparse.longest
    cfg.notes.append(
        f"texts of more than {sparse.longest} tokens attend to blocks, unless a shorter one was read before, from which"
        " on transformers lets all tokens see all others"
    )
    return max(sparse.longest, positions // sparse.block * sparse.block)


def _heads(cfg: Config, parts: tuple[str, ...], act: Activation) -> tuple[Projection, ...]:
    """As BERT's, but for a classifier with a dense layer and the layers' activation ahead of it."""
    unread = (POOLER.model_copy(update={"unread": True}),) if "unread" in parts else ()
    if "own" not in parts:
        return (*unread, *heads(cfg, parts))
    dense = Projection(name="dense", per="sequence", activation=act)
    return (*unread, dense, Projection(name="classifier", d_out=cfg.labels(), per="sequence", reads="dense"))
