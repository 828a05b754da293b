"""RoBERTa (Liu et al. 2019, arXiv:1907.11692): BERT's layers without the next-sentence objective.

Also XLM-RoBERTa (Conneau et al. 2020, arXiv:1911.02116), CamemBERT (Martin et al. 2020, arXiv:1911.03894) and data2vec
(Baevski et al. 2022, arXiv:2202.03555), which differ in the names of their classes alone, and XLM-RoBERTa-XL (Goyal et
al. 2021, arXiv:2105.00572), whose norms stand before the blocks, as do those of RoBERTa-PreLayerNorm (Wettig et al.
2022, arXiv:2202.08005), which keeps the one on the embedding.
"""

from __future__ import annotations

from calc.architectures.bert import encoder, heads, tables, vocabulary_head
from calc.architectures.common import activation
from calc.architectures.config import Config
from calc.spec import ModelSpec

PREFIX = {
    "roberta": "Roberta",
    "xlm-roberta": "XLMRoberta",
    "camembert": "Camembert",
    "data2vec-text": "Data2VecText",
    "xlm-roberta-xl": "XLMRobertaXL",
    "roberta-prelayernorm": "RobertaPreLayerNorm",
}
"""How the names of a family's classes begin."""


def spec(cfg: Config) -> ModelSpec:
    """As BERT; the masked-token head's activation is always GELU, and classifiers have a dense layer of their own."""
    prefix = PREFIX[cfg.raw["model_type"]]
    parts = cfg.architecture(
        {
            f"{prefix}ForMaskedLM": ("mlm",),
            f"{prefix}ForCausalLM": ("lm",),
            f"{prefix}Model": ("pooler",),
            f"{prefix}ForSequenceClassification": ("dense", "classifier"),
            f"{prefix}ForMultipleChoice": ("pooler", "choice"),
            f"{prefix}ForTokenClassification": ("token_classifier",),
            f"{prefix}ForQuestionAnswering": ("span",),
        },
        usual=f"{prefix}ForMaskedLM",
    )
    head = vocabulary_head(cfg, "gelu", parts)
    act = activation(cfg, "hidden_act", absent="gelu")
    # Positions are numbered from the padding token's row on, which pads take.
    offset = cfg.count("pad_token_id", absent=1, null=1) + 1
    large = prefix == "XLMRobertaXL"
    n_token_types, n_positions = (1, 514) if large else (2, 512)
    embedding = tables(cfg, n_token_types, position_offset=offset, n_positions=n_positions)
    return encoder(cfg, embedding, act, heads(cfg, parts), head)
