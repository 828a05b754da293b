"""RWKV-7's time mixing (Peng et al. 2025, arXiv:2503.14456, section 4.1)."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from calc.spec import Rwkv7
from reference_models.blocks.linear import NormLayer, wide
from reference_models.blocks.recurrence import run_rule
from reference_models.blocks.short_convolution import in_chunks, without_padding
from reference_models.blocks.token_shift import shifted
from reference_models.cache import Fixed, LayerCache
from reference_models.step import Step
from reference_models.support import supported

FIELDS = ("n_heads", "d_head", "decay_rank", "rate_rank", "gate_rank", "value_rank", "chunk", "norm")
FASTEST = math.exp(-0.5)
"""A decay is at least exp(-exp(-0.5)), about 0.55 (section 4.1)."""


class Rwkv7Mixer(nn.Module):
    """Every projection reads its own mix of a token and the one before it; the rule's normed result is gated."""

    name = "rwkv7"
    # Of layers behind the first; nn.Module knows them only at run time.
    value_down: Any
    value_up: Any

    def __init__(self, spec: Rwkv7, d_model: int) -> None:
        super().__init__()
        supported(spec, *FIELDS)
        self.spec = spec
        width, heads = spec.n_heads * spec.d_head, (spec.n_heads, spec.d_head)
        for each in "rwkvag":
            self.register_parameter(f"mix_{each}", nn.Parameter(torch.full((d_model,), 0.5)))
        self.r_proj, self.k_proj, self.v_proj = (nn.Linear(d_model, width, bias=False) for _ in range(3))
        ranks = {"decay": spec.decay_rank, "rate": spec.rate_rank, "value": spec.value_rank, "gate": spec.gate_rank}
        for name, rank in ranks.items():
            if rank is not None:
                self.add_module(f"{name}_down", nn.Linear(d_model, rank, bias=False))
                self.add_module(f"{name}_up", nn.Linear(rank, width, bias=name != "gate"))
        self.removal, self.replacement = nn.Parameter(torch.ones(heads)), nn.Parameter(torch.ones(heads))
        self.bonus = nn.Parameter(torch.zeros(heads))
        self.norm = NormLayer(spec.norm, heads)
        self.o_proj = nn.Linear(width, d_model, bias=False)

    def new_cache(self, length: int | None) -> LayerCache:
        """The last token's vector and the state, whatever the length."""
        return Fixed()

    def forward(self, x: Tensor, step: Step, cache: LayerCache | None = None) -> Tensor:
        """x [batch, seq, d_model] -> the same shape."""
        x, before = without_padding(x, step), shifted(x, step, cache)
        r, w, k, v, a, g = (x + (before - x) * self.get_parameter(f"mix_{each}") for each in "rwkvag")
        values = self._values(self.v_proj(v), v, step)
        decay = -FASTEST * wide(self._out("decay", torch.tanh(self._into("decay", w)))).sigmoid()
        rate = wide(self._out("rate", self._into("rate", a))).sigmoid()
        gate = self._out("gate", self._into("gate", g).sigmoid())
        r, k, v, decay, rate = (self._heads(wide(t)) for t in (self.r_proj(r), self.k_proj(k), values, decay, rate))
        removal = F.normalize(k * self.removal, dim=-1)
        k = k * (1 + (rate - 1) * self.replacement)
        arguments = tuple(t.transpose(1, 2) for t in (r, decay, k, v, -removal, removal * rate))
        y = run_rule(arguments, step, cache, recur, partial(chunked_rule, chunk=self.spec.chunk))
        y = self.norm(y.transpose(1, 2)) + (r * k * self.bonus).sum(-1, keepdim=True) * v
        return self.o_proj((y.flatten(2) * gate).to(x.dtype))

    def _into(self, name: str, x: Tensor) -> Tensor:
        return self.get_submodule(f"{name}_down")(x)

    def _out(self, name: str, x: Tensor) -> Tensor:
        return self.get_submodule(f"{name}_up")(x)

    def _heads(self, x: Tensor) -> Tensor:
        """[batch, seq, n_heads * d_head] -> [batch, seq, n_heads, d_head]."""
        return x.unflatten(-1, (self.spec.n_heads, -1))

    def _values(self, values: Tensor, x: Tensor, step: Step) -> Tensor:
        """This layer's values, and behind the first layer a share of the first layer's."""
        lent = {} if step.lent is None else step.lent
        if self.spec.value_rank is None:
            lent["values"] = (values,)
            return values
        return values + (lent["values"][0] - values) * self._out("value", self._into("value", x)).sigmoid()


def recur(r: Tensor, decay: Tensor, k: Tensor, v: Tensor, a: Tensor, b: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """One token: state = exp(decay) state + b (a' state) + k v', y = r' state (section 4.1).

    All [batch, heads, d_head]; state [batch, heads, d_head, d_head]. The products are written out as sums.
    """
    read = (state * a[..., None]).sum(-2)
    state = decay.exp()[..., None] * state + b[..., None] * read[..., None, :] + k[..., None] * v[..., None, :]
    return (state * r[..., None]).sum(-2), state


def chunked_rule(
    r: Tensor, decay: Tensor, k: Tensor, v: Tensor, a: Tensor, b: Tensor, *, chunk: int, state: Tensor | None
) -> tuple[Tensor, Tensor]:
    """`recur` for all tokens, each argument [batch, heads, seq, d_head].

    What token i reads through a before it writes, u_i = a_i' state, depends on the tokens of its chunk before it:
    u_i = faded a_i' S + sum over j < i of (a_i' b_j) u_j + (a_i' k_j) v_j, each product fading in between, a unit lower
    triangular system; S is the state at the chunk's start. A chunk fades so little that what is written can be divided
    by it: exp(0.61 * 16) is about 16,000.
    """
    seq = r.shape[2]
    r, decay, k, v, a, b = (in_chunks(t, chunk) for t in (r, decay, k, v, a, b))
    total = decay.cumsum(-2)
    reads = torch.cat([a * (total - decay).exp(), r * total.exp()], dim=-2)
    writes = torch.cat([b, k], dim=-2)
    grown = torch.cat([total, total], dim=-2)
    # autocast narrows a product's result, and a triangular system is solved in the wider format
    scores = (reads @ (writes * (-grown).exp()).transpose(-2, -1)).to(r.dtype)
    before, inside = scores.split(chunk, dim=-2)
    of_b, of_k = before.split(chunk, dim=-1)
    inside = inside * torch.ones(chunk, chunk, dtype=r.dtype, device=r.device).tril().repeat(1, 2)
    ahead, reading = reads.split(chunk, dim=-2)
    right = torch.cat([of_k.tril(-1) @ v, ahead], dim=-1)
    # the system's diagonal is taken as ones, whatever stands there
    solved = torch.linalg.solve_triangular(-of_b, right, upper=False, unitriangular=True)
    known, read_at = solved.split(v.shape[-1], dim=-1)
    left = writes * (total[..., -1:, :] - grown).exp()
    carried: Tensor = v.new_zeros(*v.shape[:2], k.shape[-1], v.shape[-1]) if state is None else state
    found = []
    for i in range(r.shape[2]):
        u = torch.cat([known[:, :, i] + read_at[:, :, i] @ carried, v[:, :, i]], dim=-2)
        found.append(reading[:, :, i] @ carried + inside[:, :, i] @ u)
        with torch.set_grad_enabled(torch.is_grad_enabled() and i + 1 < r.shape[2]):
            # Nothing but a cache reads the last.
            carried = total[:, :, i, -1].exp()[..., None] * carried + left[:, :, i].transpose(-2, -1) @ u
    return torch.cat(found, dim=2)[:, :, :seq], carried
