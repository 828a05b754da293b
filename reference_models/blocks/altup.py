"""Alternating updates of several residual streams: the twins of `calc.blocks.altup` and `calc.blocks.laurel`."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from calc.spec import AltUp, Norm
from reference_models.blocks.linear import NormLayer, wide
from reference_models.step import Step, recomputed
from reference_models.support import supported

LEAST = 1e-5
"""The least mean square that a vector is taken to have before it is scaled."""


class IntoStreams(nn.Module):
    """x and its projections, as large as it."""

    def __init__(self, spec: AltUp, d_model: int) -> None:
        super().__init__()
        supported(spec, "n", "active")
        self.project = nn.Linear(d_model, (spec.n - 1) * d_model, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """x [batch, seq, d_model] -> [batch, seq, n, d_model]."""
        others = self.project(x).unflatten(-1, (-1, x.shape[-1]))
        return torch.cat([x[:, :, None], matched(others, x)], 2)


class OutOfStreams(nn.Module):
    """The mean of the first stream and of the others' projections, as large as it."""

    def __init__(self, spec: AltUp, d_model: int) -> None:
        super().__init__()
        self.project = Grouped(spec.n - 1, d_model)

    def forward(self, streams: Tensor) -> Tensor:
        """streams [batch, seq, n, d_model] -> [batch, seq, d_model]."""
        first = streams[:, :, 0]
        others = matched(self.project(streams[:, :, 1:]), first)
        return torch.cat([first[:, :, None], others], 2).mean(2)


class Grouped(nn.Module):
    """A matrix of its own for each of several vectors of a token."""

    def __init__(self, groups: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(groups * width, width).normal_(std=0.02))

    def forward(self, x: Tensor) -> Tensor:
        """x [batch, seq, groups, width] -> the same shape."""
        by_group = x.flatten(0, 1).transpose(0, 1).contiguous()
        made = by_group @ self.weight.unflatten(0, (len(by_group), -1)).transpose(1, 2)
        return made.transpose(0, 1).contiguous().view(x.shape)


class Prediction(nn.Module):
    """Streams plus a mixture of them, whose weights come from the active one."""

    def __init__(self, spec: AltUp, norm: Norm, d_model: int) -> None:
        super().__init__()
        self.spec = spec
        self.router_norm = NormLayer(norm, (d_model,))
        self.router = nn.Linear(d_model, spec.n, bias=False)
        self.predict = nn.Linear(spec.n, spec.n**2, bias=False)

    def forward(self, streams: Tensor, step: Step) -> Tensor:
        """streams [batch, seq, n, d_model] -> the same shape."""
        weights = self.predict(self.modes(streams[:, :, self.spec.active])).unflatten(-1, (self.spec.n, -1))

        def mix(weights: Tensor, streams: Tensor) -> Tensor:
            return weights @ streams

        run = step.checkpointing == "selective"
        return streams + (recomputed(mix, weights, streams) if run else mix(weights, streams))

    def modes(self, x: Tensor) -> Tensor:
        """x [batch, seq, d_model] -> [batch, seq, n]."""
        return wide(self.router(self.router_norm(x) * x.shape[-1] ** -1.0)).tanh().to(x.dtype)


class Correction(nn.Module):
    """Predicted streams plus a share of what the active one has gained, and the factor of what the layer then reads."""

    def __init__(self, spec: AltUp) -> None:
        super().__init__()
        self.active = spec.active
        self.correct = nn.Linear(spec.n, spec.n, bias=False)

    def forward(self, predicted: Tensor, y: Tensor, modes: Tensor) -> Tensor:
        """predicted [batch, seq, n, d_model]; y [batch, seq, d_model], what the blocks made; modes [batch, seq, n]."""
        gained = y - predicted[:, :, self.active]
        return predicted + (self.correct(modes) + 1)[..., None] * gained[:, :, None]


class Laurel(nn.Module):
    """(x + read + norm(right(left(read)))) / sqrt(2)."""

    def __init__(self, rank: int, norm: Norm, d_model: int) -> None:
        super().__init__()
        self.left_proj = nn.Linear(d_model, rank, bias=False)
        self.right_proj = nn.Linear(rank, d_model, bias=False)
        self.norm = NormLayer(norm, (d_model,))

    def forward(self, x: Tensor, read: Tensor) -> Tensor:
        """Both [batch, seq, d_model] -> the same shape."""
        return (x + (read + self.norm(self.right_proj(self.left_proj(read))))) * 2**-0.5


def matched(x: Tensor, to: Tensor) -> Tensor:
    """x [batch, seq, k, d_model], each vector scaled to the root mean square of `to` [batch, seq, d_model]."""
    goal = to.pow(2).mean(-1, keepdim=True).sqrt()[:, :, None]
    own = x.pow(2).mean(-1, keepdim=True).clamp(min=LEAST).sqrt()
    return x * (goal / own)
