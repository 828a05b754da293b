"""Attention that reads an encoder's vectors beside its own tokens, with the same matrices (T5Gemma 2)."""

from __future__ import annotations

from calc.blocks.attention_inputs import head_sizes, normed
from calc.blocks.surroundings import Surroundings
from calc.errors import Refused
from calc.sizes import Size, holds, is_symbolic
from calc.spec import Attention, Lora, Prefix
from calc.trace.shard import key_value
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


def with_source(
    t: Trace, spec: Attention, k: Tensor, v: Tensor, d_model: Size, around: Surroundings
) -> tuple[Tensor, Tensor]:
    """Keys and values of the tokens, and behind them those of each sequence's source, normed and not turned.

    Decoding finds the latter in the cache, so that their projections do not run: the source has no rows then.
    Errors: Refused for adapters of these projections, and for an encoder of another width.
    """
    if isinstance(t.adapter, Lora | Prefix):
        raise Refused("adapter", "none of attention's inputs beside attention merged with a source", t.adapter.kind)
    source = around.source
    assert source is not None
    _refuse_other_width(source.width, d_model)
    _, kv_heads, d_head, d_value = head_sizes(spec, d_model)
    k_bias = spec.qkv_bias if spec.k_bias is None else spec.k_bias
    shard = key_value(kv_heads)

    def projected(one: str, width: Size, *, biased: bool) -> Tensor:
        key, bias = f"{one}_proj.weight", f"{one}_proj.bias" if biased else None
        return t.linear(f"source_{one}_proj", source, width, key=key, bias_key=bias, shard=shard, again=True)

    keys = projected("k", kv_heads * d_head, biased=k_bias)
    values = projected("v", kv_heads * d_value, biased=spec.qkv_bias)
    if spec.qk_norm is not None:
        keys = normed(t, spec.qk_norm, "k", keys, kv_heads, name="source_k_norm")
    k, v = (
        t.joined(own, read, rows=own.rows + read.rows, width=own.width, split="kv")
        for own, read in ((k, keys), (v, values))
    )
    return k, v


def _refuse_other_width(given: Size, d_model: Size) -> None:
    """Errors: Refused for an encoder whose vectors these matrices cannot read; of formulas nothing is asked."""
    if not is_symbolic(given) and not is_symbolic(d_model) and holds(given != d_model):
        raise Refused("encoder.d_model", "the width of the layers whose matrices read it", given)
