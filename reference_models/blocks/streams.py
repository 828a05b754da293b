"""Hyper-connections: several residual streams that each block reads from and writes to, the twins of
`calc.blocks.streams`.

Source: manifold-constrained hyper-connections (Xie et al. 2026); transformers 5.23, DeepseekV4HyperConnection.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from calc.spec import Norm, StreamMixing
from reference_models.blocks.linear import NormLayer, wide
from reference_models.step import Step, recomputed


class Connection(nn.Module):
    """Around one block: what it reads of the streams, how much of its result each stream takes, how streams mix."""

    def __init__(self, n_streams: int, spec: StreamMixing, d_model: int) -> None:
        super().__init__()
        self.spec = spec
        self.n_streams = n_streams
        given = (2 if spec.independent else 2 + n_streams) * n_streams
        self.norm = _norm(spec, n_streams * d_model)
        self.weights = nn.Linear(n_streams * d_model, given, bias=False)
        self.base = nn.Parameter(torch.zeros(given))
        self.scale = nn.Parameter(torch.ones(2 if spec.independent else 3))

    def forward(self, streams: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """streams [batch, seq, n, d_model] -> what the block reads [batch, seq, d_model], the streams' shares of what
        it gives [batch, seq, n, 1], and the mixing matrix [batch, seq, n, n], from each stream (rows) to each."""
        n = self.n_streams
        weights = weights_of(self, streams)
        read, written, *mixed = weights.split(n if self.spec.independent else [n, n, n * n], dim=-1)
        read_base, written_base, *mixed_base = self.base.split(n if self.spec.independent else [n, n, n * n])
        read = (read * self.scale[0] + read_base).sigmoid() + self.spec.eps
        written = self.spec.magnitude * (written * self.scale[1] + written_base).sigmoid()
        written = (written + self.spec.eps if self.spec.independent else written)[..., None].to(streams.dtype)
        if not self.spec.independent:
            matrix = (mixed[0] * self.scale[2] + mixed_base[0]).unflatten(-1, (n, n)).softmax(-1) + self.spec.eps
            x = (read[..., None] * streams).sum(2).to(streams.dtype)
            return x, written, self._doubly_stochastic(matrix).to(streams.dtype)
        return (read[..., None] * streams).sum(2).to(streams.dtype), written, None

    def join(self, streams: Tensor, out: Tensor, written: Tensor, mixed: Tensor | None, step: Step) -> Tensor:
        """The mixed streams, each with its share of the block's result: [batch, seq, n, d_model]."""
        shares = written * out[:, :, None]
        if mixed is None:
            return streams + shares

        # Last, since recomputation that stops early runs everything but a layer's last product.
        def mix(mixed: Tensor, streams: Tensor) -> Tensor:
            return mixed.transpose(-1, -2) @ streams

        return shares + (recomputed(mix, mixed, streams) if step.checkpointing == "selective" else mix(mixed, streams))

    def _doubly_stochastic(self, matrix: Tensor) -> Tensor:
        """Rows and columns divided by their sums in turns; the softmax has done the first rows."""
        for i in range(self.spec.rounds):
            if i:
                matrix = matrix / (matrix.sum(-1, keepdim=True) + self.spec.eps)
            matrix = matrix / (matrix.sum(-2, keepdim=True) + self.spec.eps)
        return matrix


class Collapse(nn.Module):
    """One vector of all streams, behind the last layer."""

    def __init__(self, n_streams: int, spec: StreamMixing, d_model: int) -> None:
        super().__init__()
        self.spec = spec
        if spec.mean:
            return
        self.norm = _norm(spec, n_streams * d_model)
        self.weights = nn.Linear(n_streams * d_model, n_streams, bias=False)
        self.base = nn.Parameter(torch.zeros(n_streams))
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, streams: Tensor) -> Tensor:
        """streams [batch, seq, n, d_model] -> [batch, seq, d_model]."""
        if self.spec.mean:
            return streams.mean(2)
        weights = weights_of(self, streams)
        read = (weights * self.scale + self.base).sigmoid() + self.spec.eps
        return (read[..., None] * streams).sum(2).to(streams.dtype)


def weights_of(of: Connection | Collapse, streams: Tensor) -> Tensor:
    """What all streams of a token, normed side by side, give, in fp32. Independent ones are multiplied as they are, and
    the result is divided by their root mean square."""
    flat = streams.flatten(2)
    if not of.spec.independent:
        return wide(of.weights(of.norm(flat)))
    inverse = (wide(flat).square().mean(-1, keepdim=True) + of.spec.norm_eps).rsqrt()
    return wide(of.weights(flat)) * inverse


def _norm(spec: StreamMixing, width: int) -> NormLayer:
    return NormLayer(Norm(affine=False, eps=spec.norm_eps), (width,))
