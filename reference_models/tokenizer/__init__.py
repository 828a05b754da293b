"""Byte-level byte-pair encoding, to be read: pre-tokenize by a pattern, train, encode, decode."""

from __future__ import annotations

from reference_models.tokenizer.pattern import PATTERNS, pre_tokenize
from reference_models.tokenizer.tokenizer import Tokenizer
from reference_models.tokenizer.training import merge, pair_counts, train
from reference_models.tokenizer.vocabulary import Vocabulary

__all__ = ["PATTERNS", "Tokenizer", "Vocabulary", "merge", "pair_counts", "pre_tokenize", "train"]
