"""Objectives: each takes a model and a batch and gives one number to make smaller. One objective a file.

All are means in nats, so that losses of batches of different sizes compare. What is drawn at random (which tokens are
hidden, what replaces them) is drawn with the `torch.Generator` that is handed over, on the tokens' device.
"""

from __future__ import annotations

from reference_models.objectives.classification import classification
from reference_models.objectives.ctc import ctc, ctc_losses
from reference_models.objectives.masked_token import corrupted, masked_token
from reference_models.objectives.next_sentence import next_sentence, sentence_pairs
from reference_models.objectives.next_token import next_token
from reference_models.objectives.replaced_token import replaced_token
from reference_models.objectives.return_conditioned import return_conditioned, returns_to_go
from reference_models.objectives.span_corruption import noise_spans, span_corruption, spans_replaced

__all__ = [
    "classification",
    "corrupted",
    "ctc",
    "ctc_losses",
    "masked_token",
    "next_sentence",
    "next_token",
    "noise_spans",
    "replaced_token",
    "return_conditioned",
    "returns_to_go",
    "sentence_pairs",
    "span_corruption",
    "spans_replaced",
]
