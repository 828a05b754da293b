"""What an attention makes of the vectors that it reads: queries, keys and values by head, normed and turned; the twins
of `calc.blocks.attention_inputs`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from calc.spec import QkNorm, Temperature
from reference_models.blocks.attend import split
from reference_models.blocks.attention_experts import RoutedQueries
from reference_models.blocks.linear import NormLayer
from reference_models.blocks.positions import angles, turn, turned_in_plane
from reference_models.step import Step


def add_projections(attention: Any, d_model: int) -> None:
    """Give an attention its matrices for queries, keys and values, and their norms."""
    spec, widths = attention.spec, attention.widths
    if spec.fused:
        attention.qkv_proj = nn.Linear(d_model, sum(widths.values()), bias=spec.qkv_bias)
    else:
        if spec.experts is not None:
            attention.queries = RoutedQueries(spec.experts, d_model, widths["q"])
        for one in "kv" if spec.experts is not None else {"own": "qkv", "keys": "qk", "earlier": "q"}[spec.kv]:
            bias = spec.k_bias if one == "k" and spec.k_bias is not None else spec.qkv_bias
            attention.add_module(f"{one}_proj", nn.Linear(d_model, widths[one], bias=bias))
    if spec.qk_norm is not None:
        attention.q_norm = qk_norm(spec.qk_norm, attention.n_heads, attention.d_head)
    if spec.qk_norm is not None and spec.kv != "earlier":
        attention.k_norm = qk_norm(spec.qk_norm, attention.n_kv_heads, attention.d_head)


def placed(attention: Any, x: Tensor, step: Step) -> Tensor:
    """What queries and keys are projected from: x, or x that positions are added to, or that they turn."""
    if attention.spec.position == "added" and step.added is not None:
        return x + step.added
    if attention.spec.position != "rope" or not attention.spec.rope.inputs:
        return x
    heads = split(x, attention.n_heads)
    cos, sin = angles(attention.spec.rope, heads.shape[-1], step)
    return turn(heads, cos, sin, interleaved=attention.spec.rope.interleaved).transpose(1, 2).flatten(2)


def projected(attention: Any, x: Tensor, read: Tensor) -> tuple[Any, ...]:
    """q [batch, n_heads, seq, d_head]; k, v [batch, n_kv_heads, seq, d_head or d_value], None where they are an
    earlier layer's; all normed; a gate or None."""
    spec, gate = attention.spec, None
    if spec.fused:
        q, k, v = attention.qkv_proj(x).split(list(attention.widths.values()), dim=-1)
    else:
        q, k = attention.q_proj(read), None if spec.kv == "earlier" else attention.k_proj(read)
        v = attention.v_proj(x) if spec.kv == "own" else k
    if spec.gate:
        q, gate = q.unflatten(-1, (attention.n_heads, -1)).split([attention.d_head, attention.d_value], dim=-1)
        q, gate = q.flatten(-2), gate.flatten(-2)
    q = heads_in(attention, q, attention.n_heads, "q_norm")
    if k is None or v is None:
        return q, None, None, gate
    k, v = heads_in(attention, k, attention.n_kv_heads, "k_norm"), split(v, attention.n_kv_heads)
    if spec.clip is not None:
        q, k, v = (t.clamp(-spec.clip, spec.clip) for t in (q, k, v))
    if spec.value_scale != 1.0:
        v = v * spec.value_scale
    return q, k, v if spec.v_norm is None else attention.v_norm(v), gate


def rotation(attention: Any, step: Step) -> Callable[[Tensor], Tensor] | None:
    """What turns queries and keys by the angles of their positions; None where nothing does, or inputs are turned
    ahead of their projections."""
    rope, plane = attention.spec.rope, attention.spec.rope.plane
    if attention.spec.position != "rope":
        return None
    if plane is not None:
        return lambda x: turned_in_plane(x, rope, plane, step)
    if rope.inputs:
        return None
    cos, sin = angles(rope, attention.d_head, step)
    return partial(turn, cos=cos, sin=sin, interleaved=rope.interleaved, joined=rope.joined)


def heads_in(attention: Any, x: Tensor, heads: int, norm: str) -> Tensor:
    """Queries or keys, by head, through the norm of this name where one comes first."""
    return heads_of(x, heads, attention.spec.qk_norm, getattr(attention, norm, None))


def heads_of(x: Tensor, heads: int, spec: QkNorm | None, norm: nn.Module | None) -> Tensor:
    """[batch, seq, heads * d_head] -> [batch, heads, seq, d_head], through the norm where one comes first."""
    if spec is None or norm is None or spec.turned:
        return split(x, heads)
    if spec.span == "all":
        return split(norm(x), heads)
    return norm(x.unflatten(-1, (heads, -1))).transpose(1, 2)


def temperature(spec: Temperature, queries: Tensor) -> Tensor:
    """[seq, 1]: what the query of each position is multiplied with."""
    return (1 + spec.by * torch.log1p(torch.floor((queries.float() + spec.start) / spec.every)))[:, None]


def qk_norm(spec: QkNorm, heads: int, d_head: int) -> NormLayer:
    if spec.span == "each":
        return HeadNorms(spec.norm, (heads, d_head))
    return NormLayer(spec.norm, {"head": (d_head,), "heads": (heads, d_head), "all": (heads * d_head,)}[spec.span])


class HeadNorms(NormLayer):
    """A LayerNorm of its own for each head."""

    def forward(self, x: Tensor) -> Tensor:
        """x [..., heads, d_head] -> the same shape."""
        biases = getattr(self, "bias", None)
        normed = [
            F.layer_norm(head, head.shape[-1:], self.weight[i], None if biases is None else biases[i], self.spec.eps)
            for i, head in enumerate(x.unbind(-2))
        ]
        return torch.stack(normed, -2)


class HeadTemperature(nn.Module):
    """Queries times scale * ln(1 + position) + bias, two learned numbers a head.

    Source: transformers 5.23, models/mistral_large4/modeling_mistral_large4.py, MistralLarge4TextSoftmaxScaling.
    """

    def __init__(self, n_heads: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.zeros(n_heads))
        self.bias = nn.Parameter(torch.ones(n_heads))

    def forward(self, q: Tensor, step: Step) -> Tensor:
        """q [batch, n_heads, seq, width] -> the same shape."""
        logarithms = (step.positions + 1).float().log().to(q.dtype)
        scale, bias = (each.to(q.dtype)[None, :, None] for each in (self.scale, self.bias))
        return q * (scale * logarithms[:, None] + bias)[..., None]
