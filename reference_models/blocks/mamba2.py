"""Mamba-2: state space duality, a scan whose chunks are products (Dao & Gu 2024, arXiv:2405.21060)."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from calc.spec import Mamba2, Norm
from reference_models.blocks.linear import NormLayer
from reference_models.blocks.short_convolution import ShortConvolution, in_chunks
from reference_models.cache import Fixed, LayerCache
from reference_models.step import Step, recomputed
from reference_models.support import supported

FIELDS = (
    *("n_heads", "d_head", "d_state", "n_groups", "d_conv", "chunk", "bias", "conv_bias", "norm", "gate"),
    *("dt_min", "dt_max", "scales"),
)


class Mamba2Mixer(nn.Module):
    """Project to gate, x, B, C and step size at once; convolve x, B and C; scan; norm what the gate lets through."""

    name = "mamba2"

    def __init__(self, spec: Mamba2, d_model: int) -> None:
        super().__init__()
        supported(spec, *FIELDS)
        d_inner = spec.n_heads * spec.d_head
        self.spec, self.mixed = spec, [d_inner, spec.n_groups * spec.d_state, spec.n_groups * spec.d_state]
        self.widths = [d_inner, sum(self.mixed), spec.n_heads]
        self.in_proj = nn.Linear(d_model, sum(self.widths), bias=spec.bias)
        self.conv = ShortConvolution(sum(self.mixed), spec.d_conv, bias=spec.conv_bias)
        self.dt_bias = nn.Parameter(torch.ones(spec.n_heads))
        self.A_log = nn.Parameter(torch.arange(1.0, spec.n_heads + 1).log())
        self.D = nn.Parameter(torch.ones(spec.n_heads))
        if spec.norm is not None:
            self.norm = GroupedNorm(spec.norm, spec.n_groups, d_inner)
        self.out_proj = nn.Linear(d_inner, d_model, bias=spec.bias)

    def new_cache(self, length: int | None) -> LayerCache:
        """The last inputs of the convolution and the state, whatever the length."""
        return Fixed()

    def forward(self, x: Tensor, step: Step, cache: LayerCache | None = None) -> Tensor:
        """x [batch, seq, d_model] -> the same shape."""
        spec = self.spec
        gate, mixed, dt = self._project(x).split(self.widths, dim=-1)
        x, b, c = (t.float() for t in self.conv(mixed, step, cache).split(self.mixed, dim=-1))
        x = x.unflatten(-1, (spec.n_heads, spec.d_head)).transpose(1, 2)
        # [batch, n_heads, seq, d_state], each group's laid out for all of its heads
        b, c = (t.unflatten(-1, (spec.n_groups, spec.d_state)).transpose(1, 2) for t in (b, c))
        b, c = (t.repeat_interleave(spec.n_heads // spec.n_groups, dim=1) for t in (b, c))
        dt = F.softplus(dt.float() + self.dt_bias.float()).transpose(1, 2)
        if spec.dt_min > 0 or spec.dt_max is not None:
            dt = dt.clamp(spec.dt_min, spec.dt_max)
        y = self._scan(x * dt[..., None], -self.A_log.float().exp()[:, None] * dt, b, c, step, cache)
        y = (y + self.D.float()[:, None, None] * x).transpose(1, 2).flatten(2)
        return self.out_proj(self._gated(y, F.silu(gate.float())).to(gate.dtype))

    def _project(self, x: Tensor) -> Tensor:
        """Gate, x, B, C and step size side by side, each with its multiplier where there are any."""
        projected = self.in_proj(x)
        if self.spec.scales is None:
            return projected
        widths = [self.widths[0], *self.mixed, self.widths[2]]
        return projected * torch.cat(
            [projected.new_full((n,), s) for n, s in zip(widths, self.spec.scales, strict=True)]
        )

    def _gated(self, y: Tensor, gate: Tensor) -> Tensor:
        """y [batch, seq, d_inner] through its gate and its norm, whichever comes first."""
        if self.spec.norm is None:
            return y * gate
        return self.norm(y * gate) if self.spec.gate == "before" else self.norm(y) * gate

    def _scan(self, x: Tensor, decay: Tensor, b: Tensor, c: Tensor, step: Step, cache: LayerCache | None) -> Tensor:
        before = None if cache is None else cache.state.get("state")
        if before is not None and x.shape[2] == 1:
            y, state = recur(x, decay, b, c, before)
        else:
            run = partial(chunked_scan, chunk=self.spec.chunk, state=before)
            y, state = recomputed(run, x, decay, b, c) if step.checkpointing == "selective" else run(x, decay, b, c)
        if cache is not None:
            cache.state["state"] = state
        return y


class GroupedNorm(NormLayer):
    """An RMSNorm over each of `groups` equal parts of the last axis, with a weight for every value."""

    def __init__(self, spec: Norm, groups: int, width: int) -> None:
        if spec.kind != "rmsnorm":
            raise NotImplementedError(f"Mamba2.norm = {spec.kind!r}: no module computes it yet")
        super().__init__(spec, (width,))
        self.groups = groups

    def forward(self, x: Tensor) -> Tensor:
        """x [..., width] -> the same shape."""
        parts = x.unflatten(-1, (self.groups, -1))
        wide = (parts * torch.rsqrt(parts.square().mean(-1, keepdim=True) + self.spec.eps)).flatten(-2)
        return wide * (self.weight.float() + (1.0 if self.spec.unit_offset else 0.0)) if self.spec.affine else wide


def recur(x: Tensor, decay: Tensor, b: Tensor, c: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """One token: state = exp(decay) state + x b', y = state c. Shapes as in `chunked_scan`, seq 1."""
    state = decay.exp()[..., None] * state + x.transpose(-2, -1) * b
    return (state @ c.transpose(-2, -1)).transpose(-2, -1), state


def chunked_scan(
    x: Tensor, decay: Tensor, b: Tensor, c: Tensor, *, chunk: int, state: Tensor | None
) -> tuple[Tensor, Tensor]:
    """`recur` for all tokens: within a chunk as attention with decay, between chunks through their states.

    x [batch, n_heads, seq, d_head], times its step size; decay [batch, n_heads, seq], at most 0; b, c [batch, n_heads,
    seq, d_state]; state [batch, n_heads, d_head, d_state] or None. Returns y, shaped as x, and the last state.
    """
    seq = x.shape[2]
    # [batch, n_heads, chunks, chunk, width]; padding adds nothing to a state and does not make it decay
    x, b, c, decay = (in_chunks(t, chunk) for t in (x, b, c, decay))
    total = decay.cumsum(-1)
    y = ((c @ b.transpose(-2, -1)) * _between(total)) @ x
    states = (x * (total[..., -1:] - total).exp()[..., None]).transpose(-2, -1) @ b
    first = torch.zeros_like(states[:, :, :1]) if state is None else state[:, :, None]
    carried = _between(F.pad(total[..., -1].cumsum(-1), (1, 0))) @ torch.cat([first, states], dim=2).flatten(3)
    starts, last = carried.unflatten(-1, states.shape[-2:]).split([states.shape[2], 1], dim=2)
    starts = starts.clone(memory_format=torch.contiguous_format)
    y = y + (c * total.exp()[..., None]) @ starts.transpose(-2, -1)
    return y.flatten(2, 3)[:, :, :seq], last.squeeze(2)


def _between(total: Tensor) -> Tensor:
    """exp(total_i - total_j) where j <= i, else 0: what is left at i of what came in at j. [..., n] -> [..., n, n]."""
    n = total.shape[-1]
    after = torch.ones(n, n, dtype=torch.bool, device=total.device).triu(1)
    return (total[..., :, None] - total[..., None, :]).masked_fill(after, -torch.inf).exp()
