"""The gated delta net of Qwen3-Next and Qwen3.5 (Yang et al. 2024, arXiv:2412.06464)."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from calc.spec import DeltaNet
from reference_models.blocks.linear import ACTIVATIONS, NormLayer
from reference_models.blocks.recurrence import run_rule
from reference_models.blocks.short_convolution import ShortConvolution, in_chunks
from reference_models.cache import Fixed, LayerCache
from reference_models.step import Step
from reference_models.support import supported

FIELDS = ("n_key_heads", "n_value_heads", "d_key", "d_value", "d_conv", "chunk", "fused", "norm", "double_rate", "gate")


class GatedDeltaNet(nn.Module):
    """Queries, keys and values through a short convolution into the delta rule; the result is normed and gated.

    A fused projection holds, for each key head, its queries, its keys, then values and gates of the heads it serves.
    """

    name = "delta_net"

    def __init__(self, spec: DeltaNet, d_model: int) -> None:
        super().__init__()
        supported(spec, *FIELDS)
        self.spec, self.served = spec, spec.n_value_heads // spec.n_key_heads
        keys, values = spec.n_key_heads * spec.d_key, spec.n_value_heads * spec.d_value
        self.mixed = [keys, keys, values]
        if spec.fused:
            self.qkvz_proj = nn.Linear(d_model, sum(self.mixed) + values, bias=False)
            self.ba_proj = nn.Linear(d_model, 2 * spec.n_value_heads, bias=False)
        else:
            self.qkv_proj = nn.Linear(d_model, sum(self.mixed), bias=False)
            self.z_proj = nn.Linear(d_model, values, bias=False)
            self.b_proj = nn.Linear(d_model, spec.n_value_heads, bias=False)
            self.a_proj = nn.Linear(d_model, spec.n_value_heads, bias=False)
        self.conv = ShortConvolution(sum(self.mixed), spec.d_conv, bias=False)
        self.dt_bias = nn.Parameter(torch.ones(spec.n_value_heads))
        self.A_log = nn.Parameter(torch.arange(1.0, spec.n_value_heads + 1).log())
        self.norm = NormLayer(spec.norm, (spec.d_value,))
        self.out_proj = nn.Linear(values, d_model, bias=False)

    def new_cache(self, length: int | None) -> LayerCache:
        """The last inputs of the convolution and the state, whatever the length."""
        return Fixed()

    def forward(self, x: Tensor, step: Step, cache: LayerCache | None = None) -> Tensor:
        """x [batch, seq, d_model] -> the same shape."""
        spec = self.spec
        mixed, gate, b, a = self._project(x)
        q, k, v = self.conv(mixed, step, cache).split(self.mixed, dim=-1)
        q, k = (t.unflatten(-1, (spec.n_key_heads, -1)).repeat_interleave(self.served, dim=2) for t in (q, k))
        q, k = (unit(t.float()).transpose(1, 2) for t in (q, k))
        v = v.unflatten(-1, (spec.n_value_heads, -1)).float().transpose(1, 2)
        decay = -self.A_log.float().exp() * F.softplus(a.float() + self.dt_bias.float())
        rate = 2 * b.float().sigmoid() if spec.double_rate else b.float().sigmoid()
        arguments = (q * spec.d_key**-0.5, k, v, decay.transpose(1, 2), rate.transpose(1, 2))
        y = run_rule(arguments, step, cache, _one, partial(chunked_rule, chunk=spec.chunk))
        y = self.norm(y.transpose(1, 2).to(x.dtype))
        return self.out_proj((y.float() * ACTIVATIONS[spec.gate](gate.float())).to(x.dtype).flatten(2))

    def _project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Queries, keys and values side by side, gates [batch, seq, n_value_heads, d_value], and the two scalars."""
        spec = self.spec
        if not spec.fused:
            gate = self.z_proj(x).unflatten(-1, (spec.n_value_heads, -1))
            return self.qkv_proj(x), gate, self.b_proj(x), self.a_proj(x)
        widths = [spec.d_key, spec.d_key, self.served * spec.d_value, self.served * spec.d_value]
        q, k, v, z = self.qkvz_proj(x).unflatten(-1, (spec.n_key_heads, -1)).split(widths, dim=-1)
        b, a = self.ba_proj(x).unflatten(-1, (spec.n_key_heads, -1)).chunk(2, dim=-1)
        gate = z.flatten(2).unflatten(-1, (spec.n_value_heads, -1))
        return torch.cat([t.flatten(2) for t in (q, k, v)], dim=-1), gate, b.flatten(2), a.flatten(2)


def unit(x: Tensor) -> Tensor:
    """x with length 1 along its last axis; zeros stay zeros."""
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + 1e-6)


def recur(q: Tensor, k: Tensor, v: Tensor, decay: Tensor, rate: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """One token: what the decayed state already says under this key is replaced, by `rate`, with its value; then read.

    q, k [batch, heads, d_key]; v [batch, heads, d_value]; decay [batch, heads, 1 or d_key]; rate [batch, heads]; state
    [batch, heads, d_key, d_value]. The products are written out as sums, which is how a decoded token runs.
    """
    state = decay.exp()[..., None] * state
    known = (state * k[..., None]).sum(-2)
    state = state + k[..., None] * (rate[..., None] * (v - known))[..., None, :]
    return (state * q[..., None]).sum(-2), state


def _one(q: Tensor, k: Tensor, v: Tensor, decay: Tensor, rate: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """`recur`, with one decay a head."""
    return recur(q, k, v, decay[..., None], rate, state)


def chunked_rule(
    q: Tensor, k: Tensor, v: Tensor, decay: Tensor, rate: Tensor, *, chunk: int, state: Tensor | None
) -> tuple[Tensor, Tensor]:
    """`recur` for all tokens. q, k, v [batch, heads, seq, width]; decay, rate [batch, heads, seq].

    In a chunk, the correction u_i that token i writes depends on those before it:
    u_i = rate_i (v_i - decayed k_i' S - sum over j < i of decay_ij (k_i' k_j) u_j), a unit lower triangular system,
    solved at once for the part with v and for the part with k; S is the state at the chunk's start.
    """
    seq = q.shape[2]
    q, k, v, decay, rate = (in_chunks(t, chunk) for t in (q, k, v, decay, rate))
    total = decay.cumsum(-1)
    after = torch.ones(chunk, chunk, dtype=torch.bool, device=q.device).triu(1)
    between = (total[..., :, None] - total[..., None, :]).masked_fill(after, -torch.inf).exp()
    fades, scaled = total.exp()[..., None], k * rate[..., None]
    system = (scaled @ k.transpose(-2, -1)) * between
    right = torch.cat([v * rate[..., None], scaled * fades], dim=-1)
    # the system's diagonal is taken as ones, whatever stands there
    solved = torch.linalg.solve_triangular(system, right, upper=False, unitriangular=True)
    written, reading = solved.split([v.shape[-1], k.shape[-1]], dim=-1)
    inside, q = (q @ k.transpose(-2, -1)) * between, q * fades
    k = k * (total[..., -1:] - total).exp()[..., None]
    y, last = across_chunks(q, k, written, reading, inside, total[..., -1:], state)
    return y[:, :, :seq], last


def across_chunks(
    q: Tensor, k: Tensor, written: Tensor, reading: Tensor, inside: Tensor, faded: Tensor, state: Tensor | None
) -> tuple[Tensor, Tensor]:
    """What is left once each chunk is solved by itself: corrections by the state at its start, results, a new state.

    q, k, reading [batch, heads, chunks, chunk, d_key], q faded since the chunk's start and k until its end; written
    [..., chunk, d_value]; inside [..., chunk, chunk], queries against keys; faded [batch, heads, chunks, 1 or d_key],
    the logarithm of what a chunk leaves of the state. Returns [batch, heads, chunks * chunk, d_value], the last state.
    """
    carried: Tensor = q.new_zeros(*q.shape[:2], k.shape[-1], written.shape[-1]) if state is None else state
    found = []
    for i in range(q.shape[2]):
        u = written[:, :, i] - reading[:, :, i] @ carried
        found.append(q[:, :, i] @ carried + inside[:, :, i] @ u)
        with torch.set_grad_enabled(torch.is_grad_enabled() and i + 1 < q.shape[2]):
            # Nothing but a cache reads the last.
            carried = faded[:, :, i].exp()[..., None] * carried + k[:, :, i].transpose(-2, -1) @ u
    return torch.cat(found, dim=2), carried
