"""RWKV-4's time mixing (Peng et al. 2023, arXiv:2305.13048, section 3.1)."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from calc.spec import Rwkv4
from reference_models.blocks.run_again import RunAgain
from reference_models.blocks.short_convolution import without_padding
from reference_models.blocks.token_shift import shifted
from reference_models.cache import Fixed, LayerCache
from reference_models.step import Step, recomputed
from reference_models.support import supported

NEVER = -1e38
"""The exponent of a token that counts for nothing."""


class Rwkv4Mixer(nn.Module):
    """Keys, values and receptances read their own mix of a token and the one before it; values become fading means."""

    name = "rwkv4"

    def __init__(self, spec: Rwkv4, d_model: int) -> None:
        super().__init__()
        supported(spec, "d_inner")
        width = spec.d_inner or d_model
        for each in "kvr":
            self.register_parameter(f"mix_{each}", nn.Parameter(torch.full((d_model,), 0.5)))
        self.k_proj, self.v_proj, self.r_proj = (nn.Linear(d_model, width, bias=False) for _ in range(3))
        self.decay, self.first = nn.Parameter(torch.linspace(-5.0, 3.0, width)), nn.Parameter(torch.zeros(width))
        self.o_proj = nn.Linear(width, d_model, bias=False)

    def new_cache(self, length: int | None) -> LayerCache:
        """The last token's vector and the state, whatever the length."""
        return Fixed()

    def forward(self, x: Tensor, step: Step, cache: LayerCache | None = None) -> Tensor:
        """x [batch, seq, d_model] -> the same shape."""
        x, before = without_padding(x, step), shifted(x, step, cache)
        k, v, r = (x + (before - x) * self.get_parameter(f"mix_{each}") for each in "kvr")
        k, v, gate = self.k_proj(k), self.v_proj(v), self.r_proj(r).sigmoid()
        if step.keep is not None:
            k = k.masked_fill(~step.keep[:, -x.shape[1] :, None].bool(), NEVER)
        run = partial(RunAgain.apply, partial(walk, None if cache is None else cache.state.get("state")))
        arguments = (k, v, self.decay, self.first)
        y, state = recomputed(run, *arguments) if step.checkpointing == "selective" else run(*arguments)
        if cache is not None:
            cache.state["state"] = state
        return self.o_proj(gate * y)


def walk(state: Tensor | None, k: Tensor, v: Tensor, decay: Tensor, first: Tensor) -> tuple[Tensor, Tensor]:
    """y_t = (num + e^(first + k_t) v_t) / (den + e^(first + k_t)), where num and den fade by e^(-e^decay) a token.

    k, v [batch, seq, d]; decay, first [d]; state [batch, 3, d] or None: num and den, both divided by e^top, and top,
    so that no exponential grows too large. In fp32; y in the format of v. Source: Peng et al. 2023, equation 16 and
    appendix; transformers 5.23, models/rwkv/modeling_rwkv.py.
    """
    fades, start = -decay.float().exp(), first.float()
    zeros = torch.zeros_like(k[:, 0], dtype=torch.float32)
    num, den, top = (zeros, zeros, zeros + NEVER) if state is None else state.unbind(1)
    found = []
    for key, value in zip(k.float().unbind(1), v.float().unbind(1), strict=True):
        most = torch.maximum(top, start + key)
        old, new = (top - most).exp(), (start + key - most).exp()
        found.append((old * num + new * value) / (old * den + new))
        most = torch.maximum(top + fades, key)
        old, new = (top + fades - most).exp(), (key - most).exp()
        num, den, top = old * num + new * value, old * den + new, most
    return torch.stack(found, dim=1).to(v.dtype), torch.stack([num, den, top], dim=1)
