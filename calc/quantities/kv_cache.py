"""The key-value cache: bytes kept for later tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from calc import checks
from calc.blocks.adapters import prompt_vectors
from calc.blocks.build import build
from calc.dtypes import CACHE_DTYPES
from calc.dtypes import dtype as find_dtype
from calc.errors import Refused
from calc.sizes import Size, floor_div, is_exactly, minimum, quotient
from calc.spec import ModelSpec
from calc.spec.load import Load
from calc.spec.run import WINDOW_READINGS, Run, WindowReading, exact_run
from calc.trace.op import Cache
from calc.trace.part import Leaf, leaves

Caches = list[tuple[Cache, Size]]
"""(what a layer keeps, how many such layers)."""
Share = Callable[[Cache, Leaf], tuple[Cache, Size]]
"""(what a layer keeps, where it stands) -> (what one rank keeps of it, for how many such layers)."""
_FIXED = "what does not grow"
_KINDS = (
    "layers that keep every token",
    "layers with a window",
    "compressed entries",
    _FIXED,
    "recurrent state",
)


@dataclass(frozen=True, slots=True)
class KvCache:
    """Bytes of the cache after `seq` tokens.

    bytes_per_token: what one more token costs at this length; layers past their window cost nothing.
    average_bytes_per_token: total_bytes over the tokens of the batch, an int where it divides.
    state_bytes: for each sequence, what no longer grows: windows that are full, an encoder's keys, recurrent state.
    total_bytes: of the whole batch.
    """

    bytes_per_token: Size
    average_bytes_per_token: Size
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
    """The cache of `batch` sequences of `seq` tokens, from the terms of `cache_terms`.

    source: length of an encoder's input, default as Load's.
    Errors: Refused for what is no whole size (integer arrays become float64), an unknown word, or a number format that
    caches are not kept in.
    """
    run = exact_run(
        batch=batch,
        seq=seq,
        dtype=dtype,
        window_reading=window_reading,
        source_seq=source,
        state_dtype=state_dtype,
    )
    return cache_of(spec, run)


def cache_of(spec: ModelSpec, run: Run) -> KvCache:
    """The cache of the sequences of a run, each of `seq` tokens. Errors: as `kv_cache`."""
    found = caches(spec, run)
    entries = run.seq + prompt_vectors(spec)
    now = sum(_terms(found, entries, run).values())
    growth = _growth(found, entries, run)
    return KvCache(
        bytes_per_token=growth,
        average_bytes_per_token=quotient(now, run.seq),
        state_bytes=now - growth * run.seq,
        total_bytes=run.batch * now,
    )


def cache_terms(
    spec: ModelSpec, run: Run, share: Share | None = None, widths: Mapping[str, Size] | None = None
) -> dict[str, Size]:
    """Bytes of the whole batch by what they are kept for; they sum to the total, and what a model lacks is left out.

    Keys and values take 2 * n_kv_heads * d_head elements a token and layer, for as many tokens as stay. Those of an
    encoder and the last inputs of convolutions do not grow; recurrent state is in `run.state_dtype`.
    share: count what one rank holds. widths: of `cache_widths`, perhaps as symbols; by default those of the run.
    Source: Shazeer 2019 (arXiv:1911.02150), section 2.2; windows as in Mistral 7B (arXiv:2310.06825), section 2.
    Errors: Refused for a number format that caches are not kept in.
    """
    terms = _terms(caches(spec, run, share), run.seq + prompt_vectors(spec), run, widths)
    fixed = "what does not grow" if spec.encoder is None else "keys and values of the source"
    return {fixed if name == _FIXED else name: run.batch * each for name, each in terms.items()}


def caches(spec: ModelSpec, run: Run, share: Share | None = None) -> Caches:
    """Everything that a sequence keeps. share: of one rank."""
    return [(cache, leaf.calls) if share is None else share(cache, leaf) for cache, leaf in cached_leaves(spec, run)]


def cached_leaves(spec: ModelSpec, run: Run) -> list[tuple[Cache, Leaf]]:
    """What each kind of layer keeps, and where it stands in the tree."""
    load = Load(source=run.source_seq, usual_source=run.seq, decode=True, seq=spec.shortest)
    return [(leaf.op.cache, leaf) for leaf in leaves(build(spec, load)) if leaf.op.cache is not None]


def cache_widths(run: Run) -> dict[str, int]:
    """Bytes of one number of keys and values, and of recurrent state, by the names of their symbols."""
    return {"b_dtype": _width(run), "b_state": find_dtype(run.state_dtype).width}


def _terms(caches: Caches, seq: Size, run: Run, widths: Mapping[str, Size] | None = None) -> dict[str, Size]:
    """Bytes of one sequence of `seq` tokens."""
    width, state_width = (widths or cache_widths(run)).values()
    growing, windowed, compressed, fixed, recurrent = _KINDS
    terms: dict[str, Size] = dict.fromkeys(_KINDS, 0)
    for cache, calls in caches:
        if cache.stride is not None:
            entries = floor_div(seq, cache.stride)
            cached = cache.per_token * entries + cache.rest * (seq - cache.stride * entries)
            terms[compressed] += calls * cached * width
        elif cache.window is None:
            terms[growing] += calls * cache.per_token * seq * width
        else:
            cached = minimum(seq, _window(cache.window, run.window_reading))
            terms[windowed] += calls * cache.per_token * cached * width
        terms[fixed] += calls * cache.fixed * width
        terms[recurrent] += calls * cache.recurrent * state_width
    return {name: term for name, term in terms.items() if not is_exactly(term, 0)}


def _width(run: Run) -> int:
    """Bytes of an element of keys and values: of their own format, or of that of the weights."""
    name = run.cache_dtype or run.dtype
    checks.word("dtype", name, CACHE_DTYPES)
    return find_dtype(name).width


def _growth(caches: Caches, tokens: Size, run: Run) -> Size:
    """Bytes that one more token costs a sequence of so many; an entry for several tokens by its share."""
    plain = [(cache, calls) for cache, calls in caches if cache.stride is None]
    now, after = (sum(_terms(plain, seq, run).values()) for seq in (tokens, tokens + 1))
    width = _width(run)
    shares = (quotient(calls * c.per_token * width, c.stride) for c, calls in caches if c.stride is not None)
    return sum(shares, after - now)


def _window(window: Size, reading: WindowReading) -> Size:
    """The most tokens that a window keeps."""
    if reading == "tokens":
        return window
    if reading == "cache":
        return window - 1
    raise Refused("window_reading", f"one of {', '.join(WINDOW_READINGS)}", reading)
