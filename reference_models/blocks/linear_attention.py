"""Linear attention, plain (Katharopoulos et al. 2020, arXiv:2006.16236) and lightning (Qin et al. 2024)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from calc.spec import LinearAttention
from reference_models.blocks.linear import NormLayer
from reference_models.blocks.short_convolution import without_padding
from reference_models.cache import Fixed, LayerCache
from reference_models.step import Step, recomputed
from reference_models.support import supported

FIELDS = (
    *("n_heads", "d_head", "causal", "qkv_bias", "out_bias", "fused", "feature_map", "decay", "by_depth", "norm"),
    *("gate", "chunk"),
)


class KernelAttention(nn.Module):
    """Queries meet a running sum of key-value products instead of every key.

    A fused projection holds queries, keys and values of one head after another. With decay, head i of n forgets at the
    rate 2^(-8 i / n) a token, by depth the slower the deeper.
    """

    name = "linear_attention"

    def __init__(self, spec: LinearAttention, d_model: int) -> None:
        super().__init__()
        supported(spec, *FIELDS)
        self.spec, self.d_head = spec, spec.d_head or d_model // spec.n_heads
        width = spec.n_heads * self.d_head
        if spec.fused:
            self.qkv_proj = nn.Linear(d_model, 3 * width, bias=spec.qkv_bias)
        else:
            self.q_proj, self.k_proj, self.v_proj = (nn.Linear(d_model, width, bias=spec.qkv_bias) for _ in "qkv")
        if spec.norm is not None:
            self.norm = NormLayer(spec.norm, (width,))
        if spec.gate:
            self.gate_proj = nn.Linear(d_model, width, bias=False)
        self.o_proj = nn.Linear(width, d_model, bias=spec.out_bias)

    def new_cache(self, length: int | None) -> LayerCache | None:
        """The state, whatever the length; attention to both sides keeps nothing."""
        return Fixed() if self.spec.causal else None

    def forward(self, x: Tensor, step: Step, cache: LayerCache | None = None) -> Tensor:
        """x [batch, seq, d_model] -> the same shape."""
        q, k, v = self._features(x, step)
        rates = _rates(self.spec.n_heads, x.device) if self.spec.decay else None
        if rates is not None and self.spec.by_depth:
            rates = rates * (1 - step.layer / (step.n_layers - 1 + 1e-5) + 1e-5)
        if not self.spec.causal:
            y, total = self._core(step, to_both_sides, q, k, v)
        else:
            y, total = self._in_order(q, k, v, rates, step, cache)
        if self.spec.norm is None:
            y = y / (q * total).sum(-1, keepdim=True).clamp(min=1e-6)
        y = y.transpose(1, 2).flatten(2).to(x.dtype)
        y = y if self.spec.norm is None else self.norm(y)
        return self.o_proj(self.gate_proj(x).sigmoid() * y if self.spec.gate else y)

    def _features(self, x: Tensor, step: Step) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values [batch, n_heads, seq, d_head] behind the feature map, keys zero at padding."""
        spec = self.spec
        if spec.fused:
            q, k, v = self.qkv_proj(x).unflatten(-1, (spec.n_heads, -1)).chunk(3, dim=-1)
        else:
            q, k, v = (proj(x).unflatten(-1, (spec.n_heads, -1)) for proj in (self.q_proj, self.k_proj, self.v_proj))
        if spec.feature_map == "silu":
            q, k, v = F.silu(q), F.silu(k), F.silu(v)
        else:
            q, k = F.elu(q) + 1, F.elu(k) + 1
        k = without_padding(k.flatten(2), step).unflatten(-1, (spec.n_heads, -1))
        q, k, v = (t.float().transpose(1, 2) for t in (q, k, v))
        return q, k, v

    def _in_order(
        self, q: Tensor, k: Tensor, v: Tensor, rates: Tensor | None, step: Step, cache: LayerCache | None
    ) -> tuple[Tensor, Tensor]:
        """What each query reads, and the sum of all keys up to it."""
        before = None if cache is None else cache.state.get("state")
        if before is not None and q.shape[2] == 1:
            y, state = recur(q, k, v, rates, before)
        else:
            y, state = self._core(step, partial(chunked, rates=rates, chunk=self.spec.chunk, state=before), q, k, v)
        total = k.cumsum(-2)
        if cache is not None and "keys" in cache.state:
            total = total + cache.state["keys"]
        if cache is not None:
            cache.state["state"] = state
            if self.spec.norm is None:
                cache.state["keys"] = total[:, :, -1:].clone()
        return y, total

    def _core(self, step: Step, function: Callable[..., tuple[Tensor, Tensor]], *qkv: Tensor) -> tuple[Tensor, Tensor]:
        """The products, computed once more going back where the step says so."""
        return recomputed(function, *qkv) if step.checkpointing == "selective" else function(*qkv)


def to_both_sides(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """What each query reads of all tokens, and the sum of all keys."""
    return q @ (k.transpose(-2, -1) @ v), k.sum(-2, keepdim=True)


def recur(q: Tensor, k: Tensor, v: Tensor, rates: Tensor | None, state: Tensor) -> tuple[Tensor, Tensor]:
    """One token: state = decay * state + k v', y = q' state."""
    state = state if rates is None else (-rates).exp()[:, None, None] * state
    state = state + k.transpose(-2, -1) @ v
    return q @ state, state


def chunked(
    q: Tensor, k: Tensor, v: Tensor, *, rates: Tensor | None, chunk: int, state: Tensor | None
) -> tuple[Tensor, Tensor]:
    """`recur` for all tokens, q, k, v [batch, n_heads, seq, d_head]: inside a chunk as attention without softmax.

    rates: [n_heads], how fast each head forgets, or None. The last chunk is as long as what is left.
    """
    rates = q.new_zeros(q.shape[1]) if rates is None else rates
    carried: Tensor = v.new_zeros(*v.shape[:2], k.shape[-1], v.shape[-1]) if state is None else state
    found = []
    for q_one, k_one, v_one in zip(*(t.split(chunk, dim=2) for t in (q, k, v)), strict=True):
        place = torch.arange(q_one.shape[2], device=q.device)
        apart = place[:, None] - place[None, :]
        fading = torch.where(apart >= 0, (-rates[:, None, None] * apart).exp(), 0.0)
        inside = ((q_one @ k_one.transpose(-2, -1)) * fading) @ v_one
        found.append(inside + (q_one * (-rates[:, None] * (place + 1)).exp()[..., None]) @ carried)
        left = (-rates[:, None] * (len(place) - 1 - place)).exp()[..., None]
        with torch.set_grad_enabled(torch.is_grad_enabled() and len(found) * chunk < q.shape[2]):
            # Nothing but a cache reads the last.
            carried = (-rates * len(place)).exp()[:, None, None] * carried + (k_one * left).transpose(-2, -1) @ v_one
    return torch.cat(found, dim=2), carried


def _rates(n_heads: int, device: torch.device) -> Tensor:
    """How fast each head forgets: the slopes of ALiBi (Press et al. 2021), as in lightning attention."""
    return 2.0 ** (-8 * torch.arange(1, n_heads + 1, device=device) / n_heads)
