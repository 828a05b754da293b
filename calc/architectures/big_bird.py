"""BigBird (Zaheer et al. 2020, arXiv:2007.14062), of texts so short that all tokens see all others."""

from __future__ import annotations

from calc.architectures.bert import POOLER, encoder, heads, tables, vocabulary_head
from calc.architectures.common import activation
from calc.architectures.config import Config
from calc.spec import Activation, Attention, ModelSpec, Projection

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
    """BERT's layers; defaults as in transformers' BigBirdConfig, which attends to blocks where texts are longer than
    those that a token sees together (section 2): (5 + 2 * num_random_blocks) * block_size tokens."""
    parts = cfg.architecture(PARTS, usual="BigBirdForPreTraining")
    sparse = cfg.choice("attention_type", among={"block_sparse": True, "original_full": False}, absent=True)
    longest = (5 + 2 * cfg.count("num_random_blocks", absent=3)) * cfg.size("block_size", absent=64)
    act = activation(cfg, "hidden_act", absent="gelu_new")
    embedding = tables(cfg, n_token_types=2, n_positions=4096)
    if cfg.flag("rescale_embeddings", absent=False):
        embedding = embedding.model_copy(update={"scale": cfg.size("hidden_size") ** 0.5})
    whole = encoder(cfg, embedding, act, _heads(cfg, parts, act), vocabulary_head(cfg, act, parts))
    group = whole.layers[0]
    assert isinstance(group.mixer, Attention)
    own = {"qkv_bias": cfg.flag("use_bias", absent=True), "longest": longest if sparse else None}
    group = group.model_copy(update={"mixer": group.mixer.model_copy(update=own)})
    if sparse and longest < (whole.max_seq_len or 0):
        cfg.notes.append(f"texts of at most {longest} tokens: longer ones attend to blocks, which is not described")
        whole = whole.model_copy(update={"max_seq_len": longest})
    return whole.model_copy(update={"layers": (group,)})


def _heads(cfg: Config, parts: tuple[str, ...], act: Activation) -> tuple[Projection, ...]:
    """As BERT's, but for a classifier with a dense layer and the layers' activation ahead of it."""
    unread = (POOLER.model_copy(update={"unread": True}),) if "unread" in parts else ()
    if "own" not in parts:
        return (*unread, *heads(cfg, parts))
    dense = Projection(name="dense", per="sequence", activation=act)
    return (*unread, dense, Projection(name="classifier", d_out=cfg.labels(), per="sequence", reads="dense"))
