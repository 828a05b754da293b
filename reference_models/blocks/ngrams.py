"""Vectors of the last few tokens together, looked up by a hash and added to residual streams, the twin of
`calc.blocks.ngrams`.

Source: transformers 5.23, models/qwen4_exp/modeling_qwen4_exp.py, Qwen4ExpTextPLELayer.
"""

from __future__ import annotations

from itertools import accumulate

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from calc.spec import NGrams, Norm
from reference_models.blocks.linear import NormLayer
from reference_models.blocks.short_convolution import without_padding
from reference_models.cache import LayerCache
from reference_models.step import Step
from reference_models.support import supported


class NGramVectors(nn.Module):
    """What the tokens that end at each one give every residual stream."""

    def __init__(self, spec: NGrams, norm: Norm, n_streams: int, d_model: int) -> None:
        super().__init__()
        supported(spec, "rows", "d_ngram", "d_conv", "n", "heads", "multipliers", "end")
        self.spec, width = spec, n_streams * d_model
        self.table = nn.Embedding(spec.rows, spec.d_ngram // len(spec.heads))
        self.k_proj = nn.Linear(spec.d_ngram, width, bias=False)
        self.v_proj = nn.Linear(spec.d_ngram, d_model, bias=False)
        self.k_norm, self.q_norm, self.v_norm = (NormLayer(norm, (n_streams, d_model)) for _ in range(3))
        self.conv = nn.Conv1d(width, width, spec.d_conv, groups=width, dilation=spec.n, bias=False)

    def forward(self, streams: Tensor, step: Step, cache: LayerCache | None = None) -> Tensor:
        """streams [batch, seq, n, d_model] -> the same shape, to which this has been added."""
        vectors = self.table(self.places(step, cache)).flatten(2)
        k = self.k_norm(self.k_proj(vectors).unflatten(-1, streams.shape[2:]))
        v, q = self.v_proj(vectors), self.q_norm(streams)
        score = (k * q).sum(-1, keepdim=True) / streams.shape[-1] ** 0.5
        root = score.abs().clamp_min(1e-6).sqrt() * score.sign()
        gated = root.sigmoid() * v[:, :, None]
        normed = self.v_norm(gated).flatten(2)
        gated = without_padding(gated.flatten(2), step)
        whole = gated + self.convolved(without_padding(normed, step), cache)
        return streams + whole.unflatten(-1, streams.shape[2:])

    def convolved(self, x: Tensor, cache: LayerCache | None) -> Tensor:
        """x [batch, seq, width] -> the same shape. The cache holds the last (d_conv - 1) * n inputs."""
        before, inputs = (self.spec.d_conv - 1) * self.spec.n, x.transpose(1, 2)
        if cache is not None and "conv" in cache.state:
            inputs = torch.cat([cache.state["conv"], inputs], dim=2)
        else:
            inputs = F.pad(inputs, (before, 0))
        if cache is not None:
            cache.state["conv"] = inputs[..., -before:].clone()
        return F.silu(self.conv(inputs)).transpose(1, 2)

    def places(self, step: Step, cache: LayerCache | None) -> Tensor:
        """[batch, seq, heads]: the rows that each token looks up. The cache holds the last n - 1 tokens."""
        spec, tokens = self.spec, step.tokens
        if tokens is None:
            raise ValueError("ngrams: expected a model that reads tokens, found none")
        if step.keep is not None:
            tokens = tokens.masked_fill(~step.keep[:, -tokens.shape[1] :], spec.end)
        earlier = None if cache is None else cache.state.get("tokens")
        if earlier is None:
            earlier = tokens.new_full((len(tokens), spec.n - 1), spec.end)
        history, each = torch.cat([earlier, tokens], 1), len(spec.heads) // (spec.n - 1)
        if cache is not None:
            cache.state["tokens"] = history[:, -(spec.n - 1) :].clone()
        offsets = [0, *accumulate(spec.heads)]
        ended, mixed, found = torch.zeros_like(tokens, dtype=torch.bool), tokens * spec.multipliers[0], []
        for back in range(1, spec.n):
            taken = history[:, spec.n - 1 - back : history.shape[1] - back]
            ended = ended | (taken == spec.end)
            mixed = mixed ^ (taken.masked_fill(ended, spec.end) * spec.multipliers[back])
            found += [mixed % spec.heads[i] + offsets[i] for i in range((back - 1) * each, back * each)]
        return torch.stack(found, -1)
