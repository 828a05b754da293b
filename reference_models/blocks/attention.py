"""Attention over the keys and values of its own sequence: multi-head, multi-query, grouped-query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from calc.spec import Attention
from calc.spec.positions import BY_DISTANCE
from reference_models.blocks.attend import attend, fuses, head_sizes, scale_of, split
from reference_models.blocks.attention_experts import RoutedOutput, by_head, by_slot
from reference_models.blocks.attention_inputs import add_projections, placed, projected, rotation, temperature
from reference_models.blocks.block_indexer import ChosenBlocks
from reference_models.blocks.convolved_inputs import add_convolved, convolved_inputs
from reference_models.blocks.differential import Difference, halves
from reference_models.blocks.disentangled import add_vectors, vector_scores
from reference_models.blocks.distances import add_distances, distance_scores
from reference_models.blocks.dynamic_mask import DynamicMask
from reference_models.blocks.linear import NormLayer
from reference_models.blocks.merged_attention import with_source
from reference_models.blocks.positions import alibi
from reference_models.blocks.relative import RelativeBias, RelativeVectors
from reference_models.blocks.span_convolution import add_span, span_convolution
from reference_models.blocks.sparse_blocks import in_blocks
from reference_models.blocks.squares import in_squares, out_of_squares
from reference_models.cache import Fixed, Growing, LayerCache, Several, Static
from reference_models.step import Step
from reference_models.support import supported

FIELDS = (
    *("n_heads", "n_kv_heads", "d_head", "d_value", "causal", "window", "chunked", "position", "rope", "scale"),
    *("qkv_bias", "k_bias", "out_bias", "fused", "gate", "head_gate", "inner_norm", "kv", "qk_norm", "v_norm"),
    *("buckets", "shaw", "disentangled", "by_depth", "temperature", "alibi_scaled", "clip", "value_scale"),
    *(
        "masked_window",
        "softmax",
        "squares",
        "span",
        "longest",
        "sparse",
        "repeated",
        "experts",
        "differential",
        "dynamic_mask",
    ),
    *("softcap", "sinks", "merged", "lopsided", "convolved", "indexer", "cached"),
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
    q_norm: Any
    k_norm: Any
    queries: Any
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
        if spec.convolved is not None:
            add_convolved(self, spec.convolved, d_model, bias=spec.qkv_bias)
        else:
            add_projections(self, d_model)
        if spec.v_norm is not None and spec.kv != "earlier":
            self.v_norm = NormLayer(spec.v_norm, (self.d_value,))
        if spec.dynamic_mask is not None:
            sizes = spec.dynamic_mask, self.n_heads, self.n_kv_heads, self.d_value
            self.dynamic_mask = DynamicMask(*sizes, bias=spec.qkv_bias)
        if spec.indexer is not None:
            self.indexer = ChosenBlocks(spec.indexer, spec.rope, self.d_head, d_model)
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
        """An empty cache that grows (None) or has room for `length` tokens; attention to both sides, or of what is run
        anew for each text, keeps nothing."""
        if not self.spec.causal or self.spec.kv == "earlier" or not self.spec.cached:
            return None
        own: LayerCache = Growing(self.spec.window) if length is None else Static(length, self.spec.window)
        if self.spec.convolved is not None:
            return Several(own=own, convolved=Fixed())
        return Several(own=own, source=Fixed()) if self.spec.merged else own

    def forward(self, x: Tensor, step: Step, cache: LayerCache | None = None) -> Tensor:
        """x [batch, seq, d_model] -> the same shape."""
        spec, seq = self.spec, x.shape[1]
        visits: list[Tensor] = []
        if spec.experts is not None:
            routed, *visits = self.queries(x, step)
            q, k, v, gate = by_head(routed, self.n_kv_heads), *self._keys_and_values(x), None
        elif spec.convolved is not None:
            earlier = cache.parts["convolved"] if isinstance(cache, Several) else None
            q, k, v, gate = *convolved_inputs(self, x, step, earlier), None
        else:
            q, k, v, gate = projected(self, x, placed(self, x, step))
        if spec.sparse is not None and not spec.causal and seq > spec.sparse.longest:
            scale, draws = scale_of(spec, self.d_head, step), self.training
            return self._out(in_blocks(spec.sparse, q, k, v, scale, step, x.dtype, draws=draws), x, step)
        rotate = rotation(self, step)
        if rotate is not None:
            q, k = rotate(q), k if spec.kv == "earlier" else rotate(k)
        if spec.qk_norm is not None and spec.qk_norm.turned:
            q, k = self.q_norm(q), k if spec.kv == "earlier" else self.k_norm(k)
        q_index, k_index = (None, None) if spec.indexer is None else self.indexer.projected(x, step)
        k, v, keys, k_index = self._with_earlier(x, k, v, k_index, step, cache)
        queries = step.numbers(seq, x.device)
        if spec.temperature is not None:
            q = q * temperature(spec.temperature, queries).to(q.dtype)
        extra = self._relative(queries, keys, step)
        k, v, mask, extra, hides = self._masked(x, k, v, keys, step, cache, extra)
        if q_index is not None:
            hides, mask = True, self.indexer(q_index, k_index, step.mask(seq, keys, causal=True), step)
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

    def _with_earlier(
        self, x: Tensor, k: Tensor, v: Tensor, index: Tensor | None, step: Step, cache: LayerCache | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """All keys and values, those of an earlier layer or of earlier tokens too, and the numbers of their tokens;
        and an indexer's keys of as many."""
        if self.spec.kv == "earlier" and step.lent is not None:
            k, v, keys = step.lent[self.spec.window]
        elif isinstance(cache := cache.parts["own"] if isinstance(cache, Several) else cache, Growing | Static):
            more = {} if index is None else {"index": index}
            (k, v, *whole), keys = cache.update(step.start, k=k, v=v, **more)
            index = whole[0] if whole else None
        else:
            keys = torch.arange(x.shape[1], device=x.device)
        if step.lent is not None:
            step.lent[self.spec.window] = k, v, keys
        return k, v, keys, index

    def _masked(
        self,
        x: Tensor,
        k: Tensor,
        v: Tensor,
        keys: Tensor,
        step: Step,
        cache: LayerCache | None,
        extra: dict[str, Any],
    ) -> tuple[Tensor, Tensor, Tensor | None, dict[str, Any], bool]:
        """Keys and values with those of an encoder and of a prefix, the mask over all of them, `extra` or what keys'
        values make of it, and whether anything but the order of tokens hides keys.

        No mask is made where none is read.
        """
        spec, seq, mask = self.spec, x.shape[1], None
        window = spec.window or spec.masked_window
        hides = spec.merged or step.hides(seq, len(keys), causal=spec.causal, window=window)
        if hides or (spec.causal and (extra or spec.sinks or not fuses(spec, step))):
            mask = step.mask(seq, keys, causal=spec.causal, window=window, chunked=spec.chunked, further=spec.lopsided)
        if spec.dynamic_mask is not None:
            allowed = step.mask(seq, keys, causal=True, window=spec.window)
            hides, mask, extra = True, None, {"bias": self.dynamic_mask(v, allowed, x.dtype)}
        if spec.merged and mask is not None:
            k, v, mask = with_source(self, k, v, mask, step, cache)
        if self.prefix is not None:
            hides, mask = True, step.mask(seq, keys, causal=spec.causal, window=window, chunked=spec.chunked)
            k, v, mask = self.prefix(k, v, mask)
        return k, v, mask, extra, hides

    def _out(
        self,
        values: Tensor,
        x: Tensor,
        step: Step,
        gate: Tensor | None = None,
        beside: Tensor | None = None,
        visits: Sequence[Tensor] = (),
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
