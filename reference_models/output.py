"""What one pass of a whole model gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from reference_models.step import Step


@dataclass
class Output:
    """logits: [batch, seq, vocab_size], or [batch, 1, vocab_size] of the last token; None without a head.
    last: [batch, n, d_model], after the final norm.

    heads: what each dense layer, or the pool, behind the main stack gives. seen: what the vision tower gives, None
    without pictures; deep: what it gives for single layers of the main stack. heard: what the audio tower gives, None
    without sounds. encoded: what dense layers behind the encoder give (CTC).
    similarity: [batch, images], how well each text and each picture go together (CLIP).
    further: logits of the modules that predict further tokens; those of module k (from 0) are [batch, seq - k - 1,
    vocab_size], and at place i predict token i + k + 2, as logits at place i predict token i + 1.
    step: what was recorded on the way (maps, losses, hidden).
    """

    logits: Tensor | None
    last: Tensor
    heads: dict[str, Tensor]
    step: Step
    seen: Tensor | None = None
    deep: Sequence[Tensor] = ()
    encoded: Tensor | None = None
    similarity: Tensor | None = None
    further: Sequence[Tensor] = ()
    heard: Tensor | None = None

    @property
    def results(self) -> list[Tensor]:
        """Everything that an objective could read."""
        ends = [
            self.logits,
            *self.heads.values(),
            self.seen,
            self.heard,
            *self.deep,
            self.encoded,
            self.similarity,
            *self.further,
            *self.step.targets,
        ]
        return [self.last, *(end for end in ends if end is not None)]
