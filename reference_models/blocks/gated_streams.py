"""Residual streams that blocks read value by value, through gates of low rank, the twins of
`calc.blocks.gated_streams`.

Source: transformers 5.23, models/qwen4_exp/modeling_qwen4_exp.py, Qwen4ExpTextGatedResidual.
"""

from __future__ import annotations

import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from calc.spec import Norm, StreamMixing
from reference_models.blocks.linear import NormLayer
from reference_models.step import Step


class GatedCollapse(nn.Module):
    """The mean of all streams, each normed by itself and every value times a gate of its own."""

    def __init__(self, n_streams: int, spec: StreamMixing, d_model: int) -> None:
        super().__init__()
        self.spec, self.n_streams, width, rank = spec, n_streams, n_streams * d_model, spec.rank or d_model
        self.norm = NormLayer(Norm(unit_offset=True, eps=spec.norm_eps), (n_streams, d_model))
        self.down_proj = nn.Linear(width, rank, bias=False)
        self.up_proj = nn.Linear(rank, width, bias=False)

    def forward(self, streams: Tensor) -> Tensor:
        """streams [batch, seq, n, d_model] -> [batch, seq, d_model]."""
        return self.read(self.norm(streams))

    def read(self, normed: Tensor) -> Tensor:
        """The same of streams that have been normed."""
        small = F.silu(self.down_proj(normed.flatten(2)) / self.n_streams)
        return (self.up_proj(small).sigmoid().unflatten(-1, normed.shape[2:]) * normed).mean(2)


class GatedConnection(GatedCollapse):
    """Around one block: what it reads of the streams, and how much of its result each of them takes."""

    def __init__(self, n_streams: int, spec: StreamMixing, d_model: int) -> None:
        super().__init__(n_streams, spec, d_model)
        self.write_proj = nn.Linear(n_streams * d_model, n_streams, bias=False)

    def forward(self, streams: Tensor) -> tuple[Tensor, Tensor, None]:
        """streams [batch, seq, n, d_model] -> [batch, seq, d_model], the streams' shares [batch, seq, n, 1], and no
        matrix that would mix them."""
        normed = self.norm(streams)
        shares = self.spec.magnitude * (self.write_proj(normed.flatten(2)) / self.n_streams).sigmoid()
        return self.read(normed), shares[..., None], None

    def join(self, streams: Tensor, out: Tensor, written: Tensor, mixed: None, step: Step) -> Tensor:
        """The streams, each with its share of the block's result."""
        return streams + written * out[:, :, None]
