"""MPNet (Song et al. 2020, arXiv:2004.09297): BERT's layers with learned buckets of distances beside a position table,
and without token types."""

from __future__ import annotations

from calc.architectures.bert import heads, layer, layer_norm, vocabulary_head
from calc.architectures.common import activation
from calc.architectures.config import Config
from calc.spec import Attention, Buckets, Embedding, ModelSpec

PADDED = 2
"""Rows of the position table up to the padding token's, whose number its class has written in."""


def spec(cfg: Config) -> ModelSpec:
    """All layers share one table of buckets. The masked-token head's activation is always GELU."""
    parts = cfg.architecture(
        {
            "MPNetForMaskedLM": ("mlm",),
            "MPNetModel": ("pooler",),
            "MPNetForSequenceClassification": ("dense", "classifier"),
            "MPNetForMultipleChoice": ("pooler", "choice"),
            "MPNetForTokenClassification": ("token_classifier",),
            "MPNetForQuestionAnswering": ("span",),
        },
        usual="MPNetForMaskedLM",
    )
    group = layer(cfg, activation(cfg, "hidden_act", absent="gelu"))
    assert isinstance(group.mixer, Attention)
    cfg.only("relative_attention_num_buckets", 32, why="the class sorts distances into 32, whatever its table has")
    cfg.only("is_decoder", False, None, why="the tokens of this family always see one another")
    n_positions = cfg.size("max_position_embeddings", absent=512)
    return ModelSpec(
        d_model=cfg.size("hidden_size"),
        vocab_size=cfg.size("vocab_size"),
        max_seq_len=n_positions - PADDED,
        embedding=Embedding(n_positions=n_positions, position_offset=PADDED, norm=layer_norm(cfg)),
        layers=(group.model_copy(update={"mixer": group.mixer.model_copy(update={"buckets": Buckets(n_buckets=32)})}),),
        final_norm=None,
        heads=heads(cfg, parts),
        head=vocabulary_head(cfg, "gelu", parts),
    )
