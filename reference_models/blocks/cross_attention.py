"""Attention of new tokens over an encoder's result."""

from __future__ import annotations

from torch import Tensor, nn

from calc.spec import Attention
from reference_models.blocks.attend import attend, head_sizes, split
from reference_models.blocks.attention_inputs import heads_of, qk_norm
from reference_models.cache import Fixed, LayerCache
from reference_models.step import Step
from reference_models.support import supported

FIELDS = (
    *("n_heads", "n_kv_heads", "d_head", "d_value", "causal", "position", "scale", "softcap", "softmax", "by_depth"),
    *("qkv_bias", "k_bias", "out_bias", "rope", "qk_norm"),
)
"""Fields of the spec that are computed here, or mean nothing over a source."""


class CrossAttention(nn.Module):
    """Attention of the new tokens over `step.source`, whose keys and values are projected once and then cached."""

    def __init__(self, spec: Attention, d_model: int, d_source: int) -> None:
        super().__init__()
        supported(spec, *FIELDS)
        self.spec = spec
        self.n_heads, self.n_kv_heads, d_head, d_value = head_sizes(spec, d_model)
        k_bias = spec.qkv_bias if spec.k_bias is None else spec.k_bias
        self.q_proj = nn.Linear(d_model, self.n_heads * d_head, bias=spec.qkv_bias)
        self.k_proj = nn.Linear(d_source, self.n_kv_heads * d_head, bias=k_bias)
        self.v_proj = nn.Linear(d_source, self.n_kv_heads * d_value, bias=spec.qkv_bias)
        norm = spec.qk_norm
        self.q_norm = None if norm is None else qk_norm(norm, self.n_heads, d_head)
        self.k_norm = None if norm is None else qk_norm(norm, self.n_kv_heads, d_head)
        self.o_proj = nn.Linear(self.n_heads * d_value, d_model, bias=spec.out_bias)

    def new_cache(self) -> LayerCache:
        return Fixed()

    def forward(self, x: Tensor, step: Step, cache: LayerCache | None = None) -> Tensor:
        """x [batch, seq, d_model] -> the same shape."""
        added, source_added = (step.added, step.source_added) if self.spec.position == "added" else (None, None)
        q = heads_of(self.q_proj(x if added is None else x + added), self.n_heads, self.spec.qk_norm, self.q_norm)
        if step.source is not None:
            placed = step.source if source_added is None else step.source + source_added
            k = heads_of(self.k_proj(placed), self.n_kv_heads, self.spec.qk_norm, self.k_norm)
            v = split(self.v_proj(step.source), self.n_kv_heads)
            if isinstance(cache, Fixed):
                cache.set(k=k, v=v)
        elif cache is not None and cache.state:
            k, v = cache.state["k"], cache.state["v"]
        else:
            raise ValueError(
                "source: expected an encoder's result or a cache that holds its keys and values, found none"
            )
        mask = None if step.source_keep is None else step.source_keep[:, None, None, :]
        return self.o_proj(attend(self.spec, q, k, v, step, mask=mask, plain=mask is None).transpose(1, 2).flatten(2))
