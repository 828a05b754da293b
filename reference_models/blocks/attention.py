"""Attention over the keys and values of its own sequence: multi-head, multi-query, grouped-query."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from calc.spec import Attention, QkNorm, Temperature
from calc.spec.attention import BY_DISTANCE
from reference_models.blocks.attend import attend, fuses, head_sizes, scale_of, split
from reference_models.blocks.attention_experts import RoutedOutput, RoutedQueries, by_head, by_slot
from reference_models.blocks.differential import Difference, halves
from reference_models.blocks.disentangled import add_vectors, vector_scores
from reference_models.blocks.distances import add_distances, distance_scores
from reference_models.blocks.dynamic_mask import DynamicMask
from reference_models.blocks.linear import NormLayer
from reference_models.blocks.positions import alibi, angles, turn, turned_in_plane
from reference_models.blocks.relative import RelativeBias, RelativeVectors
from reference_models.blocks.span_convolution import add_span, span_convolution
from reference_models.blocks.squares import in_squares, out_of_squares
from reference_models.cache import Fixed, Growing, LayerCache, Several, Static
from reference_models.step import Step
from reference_models.support import supported

FIELDS = (
    *("n_heads", "n_kv_heads", "d_head", "d_value", "causal", "window", "chunked", "position", "rope", "scale"),
    *(
        "qkv_bias",
        "k_bias",
        "out_bias",
        "fused",
        "gate",
        "head_gate",
        "inner_norm",
        "kv",
        "qk_norm",
        "v_norm",
        "softcap",
        "sinks",
    ),
    *("buckets", "shaw", "disentangled", "by_depth", "temperature", "alibi_scaled", "clip", "value_scale"),
    *("masked_window", "softmax", "squares", "span", "longest", "repeated", "experts", "differential", "dynamic_mask"),
    *("merged", "lopsided"),
)
"""Fields of the spec that are computed here."""


class SelfAttention(nn.Module):
    """Projections, scores, softmax, weighted values, output projection, which gives d_out values, or d_model.

    A fused projection holds all queries, then all keys, then all values. With a gate, each head's queries are followed
    by as many gates as it has values.
    """

    name = "attention"
    # Projections by name; nn.Module knows them only at run time.
    q_proj: Any
    k_proj: Any
    v_proj: Any
    difference: Any

    def __init__(self, spec: Attention, d_model: int, d_out: int | None = None) -> None:
        super().__init__()
        supported(spec, *FIELDS)
        self.spec = spec
        self.n_heads, self.n_kv_heads, self.d_head, self.d_value = head_sizes(spec, d_model)
        self.widths = {
            "q": self.n_heads * (self.d_head + self.d_value if spec.gate else self.d_head),
            "k": self.n_kv_heads * self.d_head,
            "v": self.n_kv_heads * self.d_value,
        }
        if spec.fused:
            self.qkv_proj = nn.Linear(d_model, sum(self.widths.values()), bias=spec.qkv_bias)
        else:
            if spec.experts is not None:
                self.queries = RoutedQueries(spec.experts, d_model, self.widths["q"])
            for one in "kv" if spec.experts is not None else {"own": "qkv", "keys": "qk", "earlier": "q"}[spec.kv]:
                bias = spec.k_bias if one == "k" and spec.k_bias is not None else spec.qkv_bias
                self.add_module(f"{one}_proj", nn.Linear(d_model, self.widths[one], bias=bias))
        if spec.qk_norm is not None:
            self.q_norm = qk_norm(spec.qk_norm, self.n_heads, self.d_head)
        if spec.qk_norm is not None and spec.kv != "earlier":
            self.k_norm = qk_norm(spec.qk_norm, self.n_kv_heads, self.d_head)
        if spec.v_norm is not None and spec.kv != "earlier":
            self.v_norm = NormLayer(spec.v_norm, (self.d_value,))
        if spec.dynamic_mask is not None:
            sizes = spec.dynamic_mask, self.n_heads, self.n_kv_heads, self.d_value
            self.dynamic_mask = DynamicMask(*sizes, bias=spec.qkv_bias)
        if spec.sinks:
            self.sinks = nn.Parameter(torch.zeros(self.n_heads))
        self._add_relative(d_model)
        self.prefix: nn.Module | None = None  # trained keys and values in front of all others (adapters.py)
        if spec.head_gate is not None:
            self.head_gate_proj = nn.Linear(d_model, self.n_heads, bias=False)
        if spec.inner_norm is not None:
            self.inner_norm = NormLayer(spec.inner_norm, (self.n_heads * self.d_value,))
        if spec.differential is not None:
            self.difference = Difference(spec.differential, self.d_head)
        width, d_out = self.n_heads * self.d_value, d_out or d_model
        if spec.span is not None:
            add_span(self, spec.span, d_model, self.n_heads, self.d_head)
            width += self.n_heads * self.d_head
        if spec.experts is not None:
            self.outputs = RoutedOutput(spec.experts, width, d_out, bias=spec.out_bias)
        else:
            self.o_proj = nn.Linear(width, d_out, bias=spec.out_bias)

    def _add_relative(self, d_model: int) -> None:
        buckets, shaw = self.spec.buckets, self.spec.shaw
        if self.spec.position in BY_DISTANCE:
            segments = self.spec.position == "xlnet"
            add_distances(self, d_model, self.n_heads, self.d_head, segments=segments)
        if self.spec.disentangled is not None:
            add_vectors(self, self.spec.disentangled, d_model, self.n_heads * self.d_head)
        if buckets is not None and not buckets.shared:
            self.relative_bias = RelativeBias(buckets, self.n_heads)
        if shaw is not None:
            self.relative_key = RelativeVectors(shaw, self.d_head)
            if shaw.values:
                self.relative_value = RelativeVectors(shaw, self.d_value)

    def new_cache(self, length: int | None) -> LayerCache | None:
        """An empty cache that grows (None) or has room for `length` tokens; attention to both sides keeps nothing."""
        if not self.spec.causal or self.spec.kv == "earlier":
            return None
        own: LayerCache = Growing(self.spec.window) if length is None else Static(length, self.spec.window)
        return Several(own=own, source=Fixed()) if self.spec.merged else own

    def forward(self, x: Tensor, step: Step, cache: LayerCache | None = None) -> Tensor:
        """x [batch, seq, d_model] -> the same shape."""
        spec, seq = self.spec, x.shape[1]
        visits: list[Tensor] = []
        if spec.experts is not None:
            routed, *visits = self.queries(x, step)
            q, k, v, gate = by_head(routed, self.n_kv_heads), *self._keys_and_values(x), None
        else:
            q, k, v, gate = self._project(x, self._placed(x, step))
        rotate = self._rotation(step)
        if rotate is not None:
            q, k = rotate(q), k if spec.kv == "earlier" else rotate(k)
        if spec.qk_norm is not None and spec.qk_norm.turned:
            q, k = self.q_norm(q), k if spec.kv == "earlier" else self.k_norm(k)
        k, v, keys = self._with_earlier(x, k, v, step, cache)
        queries = step.numbers(seq, x.device)
        if spec.temperature is not None:
            q = q * temperature(spec.temperature, queries).to(q.dtype)
        window = spec.window or spec.masked_window
        hides = spec.merged or step.hides(seq, len(keys), causal=spec.causal, window=window)
        extra = self._relative(queries, keys, step)
        mask = None
        if hides or (spec.causal and (extra or spec.sinks or not fuses(spec, step))):
            mask = step.mask(seq, keys, causal=spec.causal, window=window, chunked=spec.chunked, further=spec.lopsided)
        if spec.dynamic_mask is not None:
            allowed = step.mask(seq, keys, causal=True, window=spec.window)
            hides, mask, extra = True, None, {"bias": self.dynamic_mask(v, allowed, x.dtype)}
        if spec.merged and mask is not None:
            k, v, mask = self._with_source(k, v, mask, step, cache)
        if self.prefix is not None:
            hides, mask = True, step.mask(seq, keys, causal=spec.causal, window=window, chunked=spec.chunked)
            k, v, mask = self.prefix(k, v, mask)
        if spec.position in BY_DISTANCE:
            each, further = spec.position != "transformer-xl", spec.position == "xlnet"
            q, extra["distances"] = distance_scores(self, q, step, each=each, further=further)
        if spec.disentangled is not None:
            extra["distances"] = vector_scores(self, spec.disentangled, k, step)
        if spec.squares is not None:
            q, k, v = (in_squares(each, spec.squares, step.grid) for each in (q, k, v))
        how: dict[str, Any] = {"mask": mask, "plain": not hides, "causal": spec.causal, **extra}
        if spec.differential is not None:
            both = [attend(spec, q, k, half, step, **how) for half in halves(v)]
            return self.o_proj(self.difference(*both, q.dtype, step))
        beside = None if spec.span is None else span_convolution(self, spec.span, x, q, step)
        sinks = self.sinks if spec.sinks else None
        return self._out(attend(spec, q, k, v, step, sinks=sinks, **how), x, step, gate, beside, visits)

    def _keys_and_values(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """[batch, n_kv_heads, seq, d_head or d_value] each."""
        return split(self.k_proj(x), self.n_kv_heads), split(self.v_proj(x), self.n_kv_heads)

    def _rotation(self, step: Step) -> Callable[[Tensor], Tensor] | None:
        """What turns queries and keys by the angles of their positions; None where nothing does, or inputs are turned
        ahead of their projections."""
        rope, plane = self.spec.rope, self.spec.rope.plane
        if self.spec.position != "rope":
            return None
        if plane is not None:
            return lambda x: turned_in_plane(x, rope, plane, step)
        if rope.inputs:
            return None
        cos, sin = angles(rope, self.d_head, step)
        return partial(turn, cos=cos, sin=sin, interleaved=rope.interleaved, joined=rope.joined)

    def _with_earlier(
        self, x: Tensor, k: Tensor, v: Tensor, step: Step, cache: LayerCache | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """All keys and values, those of an earlier layer or of earlier tokens too, and the numbers of their tokens."""
        if self.spec.kv == "earlier" and step.lent is not None:
            k, v, keys = step.lent[self.spec.window]
        elif isinstance(cache := cache.parts["own"] if isinstance(cache, Several) else cache, Growing | Static):
            (k, v), keys = cache.update(step.start, k=k, v=v)
        else:
            keys = torch.arange(x.shape[1], device=x.device)
        if step.lent is not None:
            step.lent[self.spec.window] = k, v, keys
        return k, v, keys

    def _with_source(
        self, k: Tensor, v: Tensor, mask: Tensor, step: Step, cache: LayerCache | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Keys, values and mask [batch or 1, 1, seq, keys] of the tokens, and behind them those of the source."""
        held = cache.parts["source"] if isinstance(cache, Several) else None
        if step.source is not None:
            keys = self._heads(self.k_proj(step.source), self.n_kv_heads, "k_norm")
            values = split(self.v_proj(step.source), self.n_kv_heads)
            if isinstance(held, Fixed):
                held.set(k=keys, v=values)
        elif isinstance(held, Fixed) and held.state:
            keys, values = held.state["k"], held.state["v"]
        else:
            raise ValueError("source: expected an encoder's result or a cache that holds its keys, found none")
        seen = mask.new_ones(len(mask), 1, mask.shape[2], keys.shape[2])
        if step.source_keep is not None:
            seen = step.source_keep[:, None, None].expand(-1, 1, mask.shape[2], -1)
            mask = mask.expand(len(seen), -1, -1, -1)
        return torch.cat([k, keys], 2), torch.cat([v, values], 2), torch.cat([mask, seen], 3)

    def _out(
        self,
        values: Tensor,
        x: Tensor,
        step: Step,
        gate: Tensor | None,
        beside: Tensor | None,
        visits: Sequence[Tensor],
    ) -> Tensor:
        """values [batch, n_heads, seq, d_value] of each query -> [batch, seq, d_out]: heads side by side, what a
        convolution gave behind them, through gates and a norm where there are any, and the output projection.

        visits: of experts' queries, what their output is told.
        """
        if self.spec.squares is not None:
            values = out_of_squares(values, self.spec.squares, step.grid)
        if self.spec.experts is not None:
            return self.outputs(by_slot(values, self.spec.experts.top_k), *visits)
        values = values.transpose(1, 2).flatten(2)
        if beside is not None:
            values = torch.cat([values, beside], dim=-1)
        if self.spec.head_gate is not None:
            values = (values.unflatten(-1, (self.n_heads, -1)) * self._opened(x).to(values.dtype)).flatten(2)
        if gate is not None:
            values = values * gate.sigmoid()
        return self.o_proj(values if self.spec.inner_norm is None else self.inner_norm(values))

    def _opened(self, x: Tensor) -> Tensor:
        """[batch, seq, n_heads, 1]: what each head's result is multiplied with."""
        gate = self.head_gate_proj(x)
        gate = gate.sigmoid() if self.spec.head_gate == "sigmoid" else F.softplus(gate.float()).to(gate.dtype)
        return gate[..., None]

    def _relative(self, queries: Tensor, keys: Tensor, step: Step) -> dict[str, Any]:
        """What attention is told of the distances between its queries and keys, beside what rotary positions tell."""
        if step.added_to_scores is not None:
            return {"bias": step.added_to_scores}
        if self.spec.position == "alibi":
            bias = alibi(self.n_heads, queries, keys)
            return {"bias": bias * scale_of(self.spec, self.d_head, step) if self.spec.alibi_scaled else bias}
        if self.spec.buckets is not None:
            table: Any = step.relative if self.spec.buckets.shared else self.relative_bias
            return {"bias": table(queries, keys, causal=self.spec.causal)}
        names = () if self.spec.shaw is None else ("relative_key", "relative_value")[: 1 + self.spec.shaw.values]
        return {name: self.get_submodule(name)(queries, keys) for name in names}

    def _placed(self, x: Tensor, step: Step) -> Tensor:
        """What queries and keys are projected from: x, or x that positions are added to, or that they turn."""
        if self.spec.position == "added" and step.added is not None:
            return x + step.added
        if self.spec.position != "rope" or not self.spec.rope.inputs:
            return x
        heads = split(x, self.n_heads)
        cos, sin = angles(self.spec.rope, heads.shape[-1], step)
        return turn(heads, cos, sin, interleaved=self.spec.rope.interleaved).transpose(1, 2).flatten(2)

    def _project(self, x: Tensor, placed: Tensor) -> tuple[Any, ...]:
        """q [batch, n_heads, seq, d_head]; k, v [batch, n_kv_heads, seq, d_head or d_value], None where they are an
        earlier layer's; all normed; a gate or None."""
        spec, gate = self.spec, None
        if spec.fused:
            q, k, v = self.qkv_proj(x).split(list(self.widths.values()), dim=-1)
        else:
            q, k = self.q_proj(placed), None if spec.kv == "earlier" else self.k_proj(placed)
            v = self.v_proj(x) if spec.kv == "own" else k
        if spec.gate:
            q, gate = q.unflatten(-1, (self.n_heads, -1)).split([self.d_head, self.d_value], dim=-1)
            q, gate = q.flatten(-2), gate.flatten(-2)
        q = self._heads(q, self.n_heads, "q_norm")
        if k is None or v is None:
            return q, None, None, gate
        k, v = self._heads(k, self.n_kv_heads, "k_norm"), split(v, self.n_kv_heads)
        if spec.clip is not None:
            q, k, v = (t.clamp(-spec.clip, spec.clip) for t in (q, k, v))
        if spec.value_scale != 1.0:
            v = v * spec.value_scale
        return q, k, v if spec.v_norm is None else self.v_norm(v), gate

    def _heads(self, x: Tensor, heads: int, norm: str) -> Tensor:
        """Queries or keys, by head."""
        return heads_of(x, heads, self.spec.qk_norm, getattr(self, norm, None))


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
    return NormLayer(spec.norm, {"head": (d_head,), "heads": (heads, d_head), "all": (heads * d_head,)}[spec.span])
