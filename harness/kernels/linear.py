"""Linear attention: a kernel's features in place of softmax, causal by chunks; and its quadratic reference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calc.attention.shape import AttentionShape
from harness.kernels.base import Backend

if TYPE_CHECKING:
    import torch
    from torch import Tensor

_FEATURES = frozenset({"causal", "offset", "groups", "d_value", "backward"})


class LinearReference(Backend):
    """Weights phi(q) phi(k)^T over their row sums, phi = elu + 1, every one in memory (Katharopoulos et al. 2020,
    arXiv:2006.16236, equations 4 and 7)."""

    name = "linear_reference"
    title = "linear attention with every weight in memory"
    function = "linear"
    features = _FEATURES | {"window", "lengths", "empty"}
    dtypes = Backend.dtypes | {"fp64"}

    def forward(self, q: Tensor, k: Tensor, v: Tensor, shape: AttentionShape) -> Tensor:
        from harness.kernels.inputs import visible

        queries = features(q).reshape(shape.batch, shape.kv_heads, shape.group * shape.seq, shape.d_head)
        weights = (queries @ features(k).mT).view(shape.batch, shape.heads, shape.seq, shape.keys)
        seen = visible(shape, q.device)
        if seen is not None:
            weights = weights.masked_fill(~seen, 0)
        total = weights.sum(-1, keepdim=True)
        weights = weights / total.masked_fill(total == 0, 1)
        rows = weights.view(shape.batch, shape.kv_heads, shape.group * shape.seq, shape.keys)
        out = (rows @ v.to(rows.dtype)).to(q.dtype)
        return out.view(shape.batch, shape.heads, shape.seq, shape.d_value)


class Linear(Backend):
    """The same by a state of d_head x d_value a head: sums of phi(k) v^T and of phi(k) over the keys so far (equations
    9 and 10). Causal: chunk by chunk, within a chunk as the reference does."""

    name = "linear"
    title = "linear attention by chunks"
    function = "linear"
    features = _FEATURES
    dtypes = Backend.dtypes | {"fp64"}
    chunk = 64

    def supports(self, shape: AttentionShape, device: str = "cpu") -> str | None:
        reason = super().supports(shape, device)
        if reason is None and shape.causal and shape.offset < 0:
            return "has no queries that stand before every key"
        return reason

    def forward(self, q: Tensor, k: Tensor, v: Tensor, shape: AttentionShape) -> Tensor:
        import torch

        # [batch, kv_heads, group, seq, d]: all heads of a group meet the same state.
        queries = features(q).reshape(shape.batch, shape.kv_heads, shape.group, shape.seq, shape.d_head)
        keys, values = features(k)[:, :, None], v.to(wide(v))[:, :, None]
        known = shape.offset if shape.causal else shape.keys
        state = keys[..., :known, :].mT @ values[..., :known, :]
        total = keys[..., :known, :].sum(-2, keepdim=True)
        if not shape.causal:
            out = _read(queries, state, total)
        else:
            rows = []
            for start in range(0, shape.seq, self.chunk):
                stop = min(start + self.chunk, shape.seq)
                own = slice(known + start, known + stop)
                read, new, given = queries[..., start:stop, :], keys[..., own, :], values[..., own, :]
                weights = (read @ new.mT).tril()
                above = read @ state + weights @ given
                rows.append(above / (read @ total.mT + weights.sum(-1, keepdim=True)))
                state = state + new.mT @ given
                total = total + new.sum(-2, keepdim=True)
            out = torch.cat(rows, -2)
        return out.reshape(shape.batch, shape.heads, shape.seq, shape.d_value).to(q.dtype)


def features(x: Tensor) -> Tensor:
    """elu(x) + 1, above 0 everywhere, in fp32 where x is narrower: sums over many keys need it."""
    from torch.nn import functional

    return functional.elu(x.to(wide(x))) + 1


def wide(x: Tensor) -> torch.dtype:
    """fp32, or fp64 for fp64."""
    import torch

    return x.dtype if x.itemsize >= 4 else torch.float32


def _read(queries: Tensor, state: Tensor, total: Tensor) -> Tensor:
    return queries @ state / (queries @ total.mT)
