"""Longformer (Beltagy et al. 2020, arXiv:2004.05150): RoBERTa's layers whose attention stays within a band."""

from __future__ import annotations

from calc.architectures.bert import heads, layer, tables, vocabulary_head
from calc.architectures.common import activation
from calc.architectures.config import Config
from calc.architectures.led import in_bands
from calc.spec import ModelSpec


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' LongformerConfig: tokens see 256 others on both sides. No token sees all others,
    which is what these classes do unasked; those of sequences, spans and choices let some, and are refused."""
    parts = cfg.architecture(
        {
            "LongformerForMaskedLM": ("mlm",),
            "LongformerModel": ("pooler",),
            "LongformerForTokenClassification": ("token_classifier",),
        },
        usual="LongformerForMaskedLM",
    )
    cfg.only("onnx_export", False, why="the chunks of an exported model are laid out otherwise")
    cfg.only("is_decoder", False, None, why="the tokens of this family always see one another")
    d_model = cfg.size("hidden_size")
    plain = layer(cfg, activation(cfg, "hidden_act", absent="gelu"))
    layers, widest = in_bands(cfg, plain, d_model, "num_attention_heads")
    # Positions are numbered from the padding token's row on, which pads take, and what fills a text up.
    offset = cfg.count("pad_token_id", absent=1) + 1
    embedding = tables(cfg, n_token_types=2, position_offset=offset).model_copy(update={"multiple": widest})
    cfg.notes.append("no token sees all others (global_attention_mask): what reads them is counted as parameters alone")
    return ModelSpec(
        d_model=d_model,
        vocab_size=cfg.size("vocab_size"),
        max_seq_len=(embedding.n_positions or 0) - offset,
        embedding=embedding,
        **layers,
        final_norm=None,
        heads=heads(cfg, parts),
        head=vocabulary_head(cfg, "gelu", parts),
    )
