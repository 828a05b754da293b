"""State-space mixers: a recurrence over a small state in place of attention."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from calc.errors import Refused
from calc.spec.fields import Dim, Node
from calc.spec.norm import Norm


class Mamba(Node):
    """Selective state space, S6 (Gu & Dao 2023, arXiv:2312.00752, section 3).

    d_inner: channels, None means 2 * d_model. d_state: state of one channel. d_conv: taps of the causal convolution
    before the scan. dt_rank: width through which the step size is projected, None means d_model / 16 rounded up.
    bias: of the projections in and out. inner_norm: on step size, B and C each (Jamba, arXiv:2403.19887).
    """

    symbols: ClassVar[dict[str, str]] = {"d_state": "d_ssm"}
    kind: Literal["mamba"] = "mamba"
    d_inner: Dim | None = None
    d_state: Dim = 16
    d_conv: Dim = 4
    dt_rank: Dim | None = None
    bias: bool = False
    conv_bias: bool = True
    inner_norm: Norm | None = None


class Mamba2(Node):
    """State space duality, SSD (Dao & Gu 2024, arXiv:2405.21060, section 7): one decay a head, worked off in chunks.

    n_heads, d_head: the channels are n_heads * d_head. n_groups: sets of B and C, each shared by n_heads / n_groups
    heads. d_state: width of B and C; a head's state is d_head * d_state. d_conv: taps of the causal convolution.
    chunk: tokens that are worked off as one product. norm: behind the scan, over each group's channels; None: there is
    none. gate: whether it is applied `before` the norm or `after` it.
    dt_min, dt_max: step sizes are cut to lie between; None means no upper end.
    scales: what the projections to gate, x, B, C and step size are multiplied with (Falcon-H1).
    """

    symbols: ClassVar[dict[str, str]] = {"d_state": "d_ssm", "n_heads": "n_ssm_heads", "d_head": "d_ssm_head"}
    kind: Literal["mamba2"] = "mamba2"
    n_heads: Dim
    d_head: Dim = 64
    d_state: Dim = 128
    n_groups: Dim = 1
    d_conv: Dim = 4
    chunk: Dim = 256
    bias: bool = False
    conv_bias: bool = True
    norm: Norm | None = Norm()
    gate: Literal["before", "after"] = "before"
    dt_min: float = Field(default=0.0, ge=0)
    dt_max: float | None = Field(default=None, gt=0)
    scales: tuple[float, float, float, float, float] | None = None

    @model_validator(mode="after")
    def _groups(self) -> Self:
        if self.n_heads % self.n_groups:
            raise Refused("n_groups", f"a divisor of n_heads = {self.n_heads}", self.n_groups)
        return self
