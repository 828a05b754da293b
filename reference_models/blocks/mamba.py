"""Mamba: a selective scan, one small state for each channel (Gu & Dao 2023, arXiv:2312.00752)."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from calc.spec import Mamba
from reference_models.blocks.linear import NormLayer
from reference_models.blocks.short_convolution import ShortConvolution
from reference_models.cache import Fixed, LayerCache
from reference_models.step import Step, recomputed
from reference_models.support import supported

FIELDS = ("d_inner", "d_state", "d_conv", "dt_rank", "bias", "conv_bias", "inner_norm")


class MambaMixer(nn.Module):
    """Project to x and a gate, convolve x, scan it, gate it, project back. Step size, B and C are made from x."""

    name = "mamba"

    def __init__(self, spec: Mamba, d_model: int) -> None:
        super().__init__()
        supported(spec, *FIELDS)
        d_inner, rank = spec.d_inner or 2 * d_model, spec.dt_rank or math.ceil(d_model / 16)
        self.widths = [rank, spec.d_state, spec.d_state]
        self.in_proj = nn.Linear(d_model, 2 * d_inner, bias=spec.bias)
        self.conv = ShortConvolution(d_inner, spec.d_conv, bias=spec.conv_bias)
        self.x_proj = nn.Linear(d_inner, sum(self.widths), bias=False)
        if spec.inner_norm is not None:
            self.dt_norm, self.b_norm, self.c_norm = (NormLayer(spec.inner_norm, (width,)) for width in self.widths)
        self.A_log = nn.Parameter(torch.arange(1.0, spec.d_state + 1).log().repeat(d_inner, 1))
        self.D = nn.Parameter(torch.ones(d_inner))
        self.dt_proj = nn.Linear(rank, d_inner)
        self.out_proj = nn.Linear(d_inner, d_model, bias=spec.bias)
        self.spec = spec

    def new_cache(self, length: int | None) -> LayerCache:
        """The last inputs of the convolution and the state, whatever the length."""
        return Fixed()

    def forward(self, x: Tensor, step: Step, cache: LayerCache | None = None) -> Tensor:
        """x [batch, seq, d_model] -> the same shape."""
        x, gate = self.in_proj(x).chunk(2, dim=-1)
        x = self.conv(x, step, cache)
        dt, b, c = self.x_proj(x).split(self.widths, dim=-1)
        if self.spec.inner_norm is not None:
            dt, b, c = self.dt_norm(dt), self.b_norm(b), self.c_norm(c)
        dt = F.softplus(self.dt_proj(dt).float())
        run = partial(scan, state=None if cache is None else cache.state.get("state"))
        values = x.float()
        arguments = (values, dt, -self.A_log.float().exp(), b.float(), c)
        y, state = recomputed(run, *arguments) if step.checkpointing == "selective" else run(*arguments)
        if cache is not None:
            cache.state["state"] = state
        y = y + self.D.float() * values
        return self.out_proj((y * F.silu(gate.float())).to(x.dtype))


def scan(x: Tensor, dt: Tensor, a: Tensor, b: Tensor, c: Tensor, *, state: Tensor | None) -> tuple[Tensor, Tensor]:
    """y_t = h_t c_t, where h_t = exp(dt_t a) h_(t-1) + dt_t x_t b_t', for all tokens at once.

    x, dt [batch, seq, d]; a [d, n]; b, c [batch, seq, n]; state [batch, d, n] or None. States are read in the format of
    c. Returns y and the last state.
    """
    factor = (dt[..., None] * a).exp()
    update = dt[..., None] * b[:, :, None, :] * x[..., None]
    before = x.new_zeros(x.shape[0], *a.shape) if state is None else state
    states = Recurrence.apply(factor, update, before)
    return (states.to(c.dtype) @ c[..., None]).squeeze(-1), states[:, -1]


class Recurrence(torch.autograd.Function):
    """h_t = f_t h_(t-1) + u_t. Going back, the same from the end. It keeps f, h and the state before all tokens, as
    going token by token would."""

    @staticmethod
    def forward(ctx: Any, factor: Tensor, update: Tensor, before: Tensor) -> Tensor:
        """factor, update [batch, seq, d, n], before [batch, d, n] -> all states, as factor."""
        first = update[:, :1] + factor[:, :1] * before[:, None]
        states = _states(factor, torch.cat([first, update[:, 1:]], dim=1))
        ctx.save_for_backward(factor, states, before)
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # type: ignore[override]
        """What each state does to all later ones comes back over the factors between."""
        factor, states, before = ctx.saved_tensors
        none = torch.zeros_like(factor[:, :1])
        reached = _states(torch.cat([none, factor[:, 1:].flip(1)], dim=1), grad.flip(1)).flip(1)
        of_factor = reached * torch.cat([before[:, None], states[:, :-1]], dim=1)
        return of_factor, reached, factor[:, 0] * reached[:, 0]


def _states(factor: Tensor, update: Tensor) -> Tensor:
    """All states in log2(seq) rounds.

    A step h -> f h + u followed by h -> g h + v is the step h -> g f h + (g u + v), so that steps can be joined in any
    grouping: round r joins each token's with that of the token 2^r before it (Hillis & Steele 1986).
    """
    reach = 1
    while reach < update.shape[1]:
        joined = update[:, reach:] + factor[:, reach:] * update[:, :-reach]
        update = torch.cat([update[:, :reach], joined], dim=1)
        factor = torch.cat([factor[:, :reach], factor[:, reach:] * factor[:, :-reach]], dim=1)
        reach *= 2
    return update
