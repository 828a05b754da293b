"""Kimi delta attention (Kimi Team 2025, arXiv:2510.26692): a delta net that forgets each channel at its own rate."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from calc.spec import Kda
from reference_models.blocks.delta_net import across_chunks, recur, unit
from reference_models.blocks.linear import NormLayer
from reference_models.blocks.recurrence import run_rule
from reference_models.blocks.short_convolution import ShortConvolution, in_chunks, without_padding
from reference_models.cache import Fixed, LayerCache
from reference_models.step import Step
from reference_models.support import supported


class KimiDeltaAttention(nn.Module):
    """Queries, keys and values through a short convolution into the rule; a sigmoid gates its normed result."""

    name = "kda"

    def __init__(self, spec: Kda, d_model: int) -> None:
        super().__init__()
        supported(spec, "n_heads", "d_head", "d_conv", "chunk", "norm", "bottleneck", "bound")
        self.spec = spec
        width = spec.n_heads * spec.d_head
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(d_model, width, bias=False) for _ in range(3))
        self.conv = ShortConvolution(3 * width, spec.d_conv, bias=False)
        self._add_projected("f", d_model, width)
        self.b_proj = nn.Linear(d_model, spec.n_heads, bias=False)
        self.dt_bias = nn.Parameter(torch.ones(width))
        self.A_log = nn.Parameter(torch.arange(1.0, spec.n_heads + 1).log())
        self._add_projected("g", d_model, width)
        self.norm = NormLayer(spec.norm, (spec.d_head,))
        self.o_proj = nn.Linear(width, d_model, bias=False)

    def new_cache(self, length: int | None) -> LayerCache:
        """The last inputs of the convolution and the state, whatever the length."""
        return Fixed()

    def forward(self, x: Tensor, step: Step, cache: LayerCache | None = None) -> Tensor:
        """x [batch, seq, d_model] -> the same shape."""
        x = without_padding(x, step)
        mixed = torch.cat([self.q_proj(x), self.k_proj(x), self.v_proj(x)], dim=-1)
        q, k, v = (self._heads(t).float() for t in self.conv(mixed, step, cache).chunk(3, dim=-1))
        stepped = self._projected("f", x).float() + self.dt_bias.float()
        rate = self.b_proj(x).float().sigmoid().transpose(1, 2)
        arguments = (unit(q) * self.spec.d_head**-0.5, unit(k), v, self._decay(stepped), rate)
        y = run_rule(arguments, step, cache, recur, partial(chunked_rule, chunk=self.spec.chunk))
        y = self.norm(y.transpose(1, 2).to(x.dtype))
        gate = self._projected("g", x).unflatten(-1, (self.spec.n_heads, -1))
        return self.o_proj((y.float() * gate.float().sigmoid()).to(x.dtype).flatten(2))

    def _add_projected(self, name: str, d_model: int, width: int) -> None:
        if not self.spec.bottleneck:
            self.add_module(f"{name}_proj", nn.Linear(d_model, width, bias=False))
            return
        self.add_module(f"{name}_a_proj", nn.Linear(d_model, self.spec.d_head, bias=False))
        self.add_module(f"{name}_b_proj", nn.Linear(self.spec.d_head, width, bias=False))

    def _projected(self, name: str, x: Tensor) -> Tensor:
        """x [batch, seq, d_model] -> [batch, seq, n_heads * d_head], through d_head values where that is so."""
        if not self.spec.bottleneck:
            return self.get_submodule(f"{name}_proj")(x)
        return self.get_submodule(f"{name}_b_proj")(self.get_submodule(f"{name}_a_proj")(x))

    def _decay(self, stepped: Tensor) -> Tensor:
        """stepped [batch, seq, n_heads * d_head] -> logarithms of decays [batch, n_heads, seq, d_head]."""
        if self.spec.bound is None:
            return -self.A_log.float().exp()[:, None, None] * self._heads(F.softplus(stepped))
        return self.spec.bound * (self.A_log.float().exp()[:, None, None] * self._heads(stepped)).sigmoid()

    def _heads(self, x: Tensor) -> Tensor:
        """[batch, seq, n_heads * d_head] -> [batch, n_heads, seq, d_head]."""
        return x.unflatten(-1, (self.spec.n_heads, -1)).transpose(1, 2)


def chunked_rule(
    q: Tensor, k: Tensor, v: Tensor, decay: Tensor, rate: Tensor, *, chunk: int, state: Tensor | None
) -> tuple[Tensor, Tensor]:
    """`delta_net.recur` for all tokens. q, k, v, decay [batch, heads, seq, width]; rate [batch, heads, seq].

    As `delta_net.chunked_rule`, but two tokens' scores fade channel by channel on the way from one to the other, which
    no product of matrices computes without dividing by what may be too small.
    """
    seq = q.shape[2]
    q, k, v, decay, rate = (in_chunks(t, chunk) for t in (q, k, v, decay, rate))
    total = decay.cumsum(-2)
    after = torch.ones(chunk, chunk, dtype=torch.bool, device=q.device).triu(1)[..., None]
    between = (total[..., :, None, :] - total[..., None, :, :]).masked_fill(after, -torch.inf).exp()
    scaled = k * rate[..., None]
    system = (scaled[..., :, None, :] * k[..., None, :, :] * between).sum(-1)
    inverse, fades = unit_lower_inverse(system), total.exp()
    written, reading = inverse @ (v * rate[..., None]), inverse @ (scaled * fades)
    inside = (q[..., :, None, :] * k[..., None, :, :] * between).sum(-1)
    k = k * (total[..., -1:, :] - total).exp()
    y, last = across_chunks(q * fades, k, written, reading, inside, total[..., -1, :], state)
    return y[:, :, :seq], last


def unit_lower_inverse(system: Tensor) -> Tensor:
    """The inverse of lower triangular matrices [..., n, n] with ones on the diagonal, whatever stands there.

    Row i is the unit's, less the rows above it as often as the matrix says: sums, no products of matrices.
    """
    unit_rows = torch.eye(system.shape[-1], dtype=system.dtype, device=system.device)
    rows = [unit_rows[0].expand(*system.shape[:-2], -1)]
    for i in range(1, system.shape[-1]):
        rows.append(unit_rows[i] - (system[..., i, :i, None] * torch.stack(rows, dim=-2)).sum(-2))
    return torch.stack(rows, dim=-2)
