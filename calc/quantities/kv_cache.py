"""The key-value cache: bytes kept for later tokens."""

from __future__ import annotations

from dataclasses import dataclass

from calc.build import build
from calc.dtypes import dtype as find_dtype
from calc.load import Load
from calc.op import Cache, leaves
from calc.query import WindowReading
from calc.sizes import Size, exact_div, minimum
from calc.spec import ModelSpec


@dataclass(frozen=True, slots=True)
class KvCache:
    """Bytes of the cache after `seq` tokens.

    bytes_per_token: what one more token costs at this length; layers past their window cost nothing.
    state_bytes: for each sequence, what no longer grows: windows that are full.
    total_bytes: of the whole batch.
    """

    bytes_per_token: Size
    state_bytes: Size
    total_bytes: Size


def kv_cache(
    spec: ModelSpec,
    batch: Size,
    seq: Size,
    dtype: str = "bf16",
    window_reading: WindowReading = "tokens",
    *,
    source: Size | None = None,
    state_dtype: str = "fp32",
) -> KvCache:
    """Keys and values of every layer: 2 * n_kv_heads * d_head elements a token and layer, as many tokens as stay.

    Keys and values of an encoder's `source` (default: as Load's) and convolution state are in `dtype` and do not grow;
    recurrent state is in `state_dtype`.
    Source: Shazeer 2019 (arXiv:1911.02150), section 2.2; windows as in Mistral 7B (arXiv:2310.06825), section 2.
    """
    load = Load(source=source, usual_source=seq, decode=True)
    caches = [(leaf.op.cache, leaf.calls) for leaf in leaves(build(spec, load)) if leaf.op.cache is not None]
    now = _elements(caches, seq, window_reading)
    growth = _elements(caches, seq + 1, window_reading) - now
    bits = find_dtype(dtype).bits
    fixed = sum(calls * cache.fixed for cache, calls in caches) * bits
    fixed += sum(calls * cache.recurrent for cache, calls in caches) * find_dtype(state_dtype).bits
    return KvCache(
        bytes_per_token=exact_div(growth * bits, 8),
        state_bytes=exact_div((now - growth * seq) * bits + fixed, 8),
        total_bytes=exact_div(batch * (now * bits + fixed), 8),
    )


def _elements(caches: list[tuple[Cache, Size]], seq: Size, window_reading: WindowReading) -> Size:
    """Elements that one sequence of `seq` tokens keeps, without what does not grow."""
    total: Size = 0
    for cache, calls in caches:
        kept = seq
        if cache.window is not None:
            kept = minimum(seq, cache.window if window_reading == "tokens" else cache.window - 1)
        total = total + calls * cache.per_token * kept
    return total
