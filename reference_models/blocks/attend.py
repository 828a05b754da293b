"""The core of every attention: scores, softmax, weighted values; and what all who call it share."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from calc.spec import Attention
from reference_models.blocks.linear import softcap, wide
from reference_models.step import Step, recomputed


def attend(
    spec: Attention,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    step: Step,
    *,
    mask: Tensor | None = None,
    plain: bool = False,
    causal: bool = False,
    bias: Tensor | None = None,
    sinks: Tensor | None = None,
    relative_key: Tensor | None = None,
    relative_value: Tensor | None = None,
    distances: Callable[[Tensor], Tensor] | None = None,
    apart: bool = False,
) -> Tensor:
    """softmax(scale * q k' + bias) v: [batch, n_heads, seq, d_value], for queries of n_heads and keys of n_kv_heads.

    mask: True where a query may attend. plain: that is causal attention over a whole sequence, or where causal is
    False, nothing is hidden; where `fuses` says so, no mask is then read.
    bias: [1, n_heads, seq, keys], added to the scores. sinks: [n_heads], a logit
    that takes part in the softmax and carries no value. relative_key, relative_value: [seq, keys, width], added to each
    key and value (Shaw et al. 2018, equations 3 and 4). distances: queries -> scores that are added to those of keys.
    apart: PyTorch's kernel is not asked.
    """
    scale = scale_of(spec, q.shape[-1], step)
    usual = sinks is None and relative_key is None and distances is None and not apart
    run: Callable[..., Tensor]
    if usual and fuses(spec, step):
        alike = {"scale": scale, "dropout_p": step.dropout}
        run = partial(_fused, mask=mask, bias=bias, plain=plain, causal=causal, repeated=spec.repeated, **alike)
    else:
        relative = {"relative_key": relative_key, "relative_value": relative_value, "distances": distances}
        run = partial(_eager, spec=spec, step=step, scale=scale, mask=mask, bias=bias, sinks=sinks, **relative)
    return recomputed(run, q, k, v) if step.checkpointing == "selective" else run(q, k, v)


def _fused(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Tensor | None,
    bias: Tensor | None,
    plain: bool,
    causal: bool,
    repeated: bool,
    **alike: Any,
) -> Tensor:
    """In PyTorch's own kernel. repeated: as the field of `Attention`."""
    if not repeated:
        alone = plain and bias is None
        hidden = {"is_causal": causal and q.shape[2] > 1} if alone else {"attn_mask": _one_mask(mask, bias, q)}
        return F.scaled_dot_product_attention(q, k, v, **hidden, **alike)
    if plain and bias is None:
        gqa = k.shape[1] != q.shape[1]
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal and q.shape[2] > 1, enable_gqa=gqa, **alike)
    return _masked(q, k, v, mask, bias, **alike)


def _eager(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    spec: Attention,
    step: Step,
    scale: float,
    mask: Tensor | None,
    bias: Tensor | None,
    sinks: Tensor | None,
    relative_key: Tensor | None,
    relative_value: Tensor | None,
    distances: Callable[[Tensor], Tensor] | None,
) -> Tensor:
    """Operation by operation, as it is written."""
    k, v = _for_every_head(q, k, v)
    scores = q @ k.transpose(-2, -1)
    if relative_key is not None:
        scores = scores + _against_each(q, relative_key.transpose(-2, -1))
    if distances is not None:
        scores = scores + distances(q)
    scores = softcap(scores * scale, spec.softcap)
    if bias is not None:
        scores = scores + bias
    if mask is not None:
        scores = scores + added_mask(mask, scores.dtype if step.stream is None else step.stream.dtype)
    weights = _softmax(scores if spec.softmax == "model" else wide(scores), sinks).to(v.dtype)
    weights = F.dropout(weights, step.dropout)
    if step.need_weights:
        step.maps.append(weights.detach())
    values = weights @ v
    return values if relative_value is None else values + _against_each(weights, relative_value)


def _masked(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, bias: Tensor | None, **alike: Any) -> Tensor:
    """PyTorch's own kernel with a mask or a bias, or both."""
    both = _one_mask(mask, bias, q)
    if q.shape[2] == 1 and q.shape[1] != k.shape[1] and bias is None:
        # The queries of one token that share keys stand in a row of their own, so that no key is copied.
        rows = q.unflatten(1, (k.shape[1], -1)).squeeze(3)
        return F.scaled_dot_product_attention(rows, k, v, attn_mask=both, **alike).flatten(1, 2).unsqueeze(2)
    k, v = _for_every_head(q, k, v)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=both, **alike)


def fuses(spec: Attention, step: Step) -> bool:
    """Whether PyTorch's own kernel computes such attention, where nothing but a mask or a bias is added."""
    return step.kernel == "sdpa" and spec.softcap is None and not step.need_weights


def head_sizes(spec: Attention, d_model: int) -> tuple[int, int, int, int]:
    """(n_heads, n_kv_heads, d_head, d_value), the ones left None filled in from the others."""
    d_head = spec.d_head or d_model // spec.n_heads
    return spec.n_heads, spec.n_kv_heads or spec.n_heads, d_head, spec.d_value or d_head


def scale_of(spec: Attention, d_head: int, step: Step) -> float:
    """What scores are multiplied with in this layer."""
    scale = d_head**-0.5 if spec.scale is None else spec.scale
    return scale / (step.layer + 1) if spec.by_depth else scale


def split(x: Tensor, heads: int) -> Tensor:
    """[batch, seq, heads * width] -> [batch, heads, seq, width]."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def _against_each(x: Tensor, tables: Tensor) -> Tensor:
    """x [batch, heads, seq, a] times tables [seq, a, b], a matrix for each query -> [batch, heads, seq, b]."""
    batch, heads, _, _ = x.shape
    by_query = x.permute(2, 0, 1, 3).flatten(1, 2) @ tables
    return by_query.unflatten(1, (batch, heads)).permute(1, 2, 0, 3)


def added_mask(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """0 where `mask` is True, and elsewhere what leaves nothing of a score that it is added to."""
    return torch.zeros_like(mask, dtype=dtype).masked_fill(~mask, torch.finfo(dtype).min)


def _softmax(scores: Tensor, sinks: Tensor | None) -> Tensor:
    """Over the keys; a sink takes its share and is then left out."""
    if sinks is None:
        return scores.softmax(-1)
    column = sinks[None, :, None, None].expand(*scores.shape[:-1], 1).to(scores.dtype)
    return torch.cat([scores, column], dim=-1).softmax(-1)[..., :-1]


def _for_every_head(q: Tensor, *shared: Tensor) -> tuple[Tensor, ...]:
    """Keys and values repeated for all the heads that share them."""
    groups = q.shape[1] // shared[0].shape[1]
    return tuple(t.repeat_interleave(groups, dim=1) for t in shared) if groups > 1 else shared


def _one_mask(mask: Tensor | None, bias: Tensor | None, q: Tensor) -> Tensor | None:
    """Mask and bias as the one argument that PyTorch's kernel takes, [batch, heads or 1, seq, keys]."""
    if bias is None:
        return None if mask is None else mask.expand(len(q), -1, -1, -1)
    if mask is None:
        return bias.to(q.dtype)
    return bias.to(q.dtype).masked_fill(~mask, torch.finfo(q.dtype).min)
