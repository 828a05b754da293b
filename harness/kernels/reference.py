"""Attention in the open: product, softmax, product, with every score in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calc.attention.shape import AttentionShape
from harness.kernels.base import Backend

if TYPE_CHECKING:
    from torch import Tensor


class Reference(Backend):
    """The formula, softmax(q k^T / sqrt(d_head)) v (Vaswani et al. 2017, equation 1), in the inputs' own format.

    Key heads are not repeated: the rows of a group lie below one another in one product. In fp64 it is what every other
    backend is held against.
    """

    name = "reference"
    title = "matmul, softmax, matmul in PyTorch"
    dtypes = Backend.dtypes | {"fp64"}

    def forward(self, q: Tensor, k: Tensor, v: Tensor, shape: AttentionShape) -> Tensor:
        import torch

        from harness.kernels import inputs

        packed = q.reshape(shape.batch, shape.kv_heads, shape.group * shape.seq, shape.d_head)
        scores = (packed @ k.mT).view(shape.batch, shape.heads, shape.seq, shape.keys) * shape.d_head**-0.5
        if shape.softcap is not None:
            scores = shape.softcap * torch.tanh(scores / shape.softcap)
        if shape.alibi:
            scores = scores + inputs.alibi(shape, q.device).to(q.dtype)
        seen = inputs.visible(shape, q.device)
        if seen is None:
            weights = torch.softmax(scores, -1)
        else:
            # A row that sees nothing would be 0 / 0: its scores stay as they are and its weights become zeros.
            empty = ~seen.any(-1, keepdim=True)
            weights = torch.softmax(scores.masked_fill(~seen & ~empty, -torch.inf), -1).masked_fill(empty, 0)
        rows = weights.view(shape.batch, shape.kv_heads, shape.group * shape.seq, shape.keys)
        return (rows @ v).view(shape.batch, shape.heads, shape.seq, shape.d_value)
