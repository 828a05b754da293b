"""How hyper-connections weigh residual streams."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from calc.spec.fields import Dim, Node


class StreamMixing(Node):
    """Manifold-constrained hyper-connections (Xie et al. 2026; DeepSeek-AI 2026, DeepSeek-V4, section 2.2).

    rounds: how often the columns of the matrix that mixes streams are divided by their sums, and between that its rows
    (Sinkhorn & Knopp 1967). eps: added to weights and sums. norm_eps: of the norm on all streams of a token together.
    independent: streams are not mixed, but each keeps what it is and takes its share; magnitude: the most that a share
    is, but for eps, which is added to it too (Hy4, iHC: transformers 5.23, HYV4HyperConnection).
    mean: behind the last layer stands the streams' mean, not a sum by weights of their own (GLM-5.3).
    rank: streams are not mixed, and a block reads, without a norm of its own, the mean of all of them, each normed by
    itself and every value times a gate of its own, which two matrices of this rank make of all streams; magnitude as
    above, and nothing is added to a share (Qwen4: transformers 5.23, Qwen4ExpTextGatedResidual). None: they are read
    by a number each.
    """

    symbols: ClassVar[dict[str, str]] = {"rank": "stream_rank"}
    rounds: int = Field(default=20, gt=0, le=2**10)
    eps: float = Field(default=1e-6, ge=0)
    norm_eps: float = Field(default=1e-6, ge=0)
    independent: bool = False
    magnitude: float = 2.0
    mean: bool = False
    rank: Dim | None = None
