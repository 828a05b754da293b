"""The key-value cache of one rank, in theory and as an engine allocates it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from calc.blocks.adapters import prompt_vectors
from calc.dtypes import CACHE_DTYPES, Quantized, weight_dtype
from calc.dtypes import dtype as number_format
from calc.errors import Refused
from calc.memory.paging import Paged, allocated
from calc.memory.sharding import Stage, stages
from calc.quantities.kv_cache import cache_terms, cached_leaves
from calc.sizes import Size, ceil_div, is_exactly, largest, minimum
from calc.spec import Attention, LayerGroup, Mla, Mlp, ModelSpec
from calc.spec.run import Run
from calc.spec.run.engines import INDEX_BLOCK, SPARSE_LATENT, Engine, allocating_names, engine_named
from calc.trace.op import Cache
from calc.trace.part import Leaf


def cache_columns(spec: ModelSpec, run: Run) -> dict[str, Size | None]:
    """Bytes of the cache on the rank that has the most: in `theory`, and by the name of each engine what it allocates,
    None where its rules do not say."""
    columns: dict[str, Size | None] = {"theory": _cache(spec, run.changed(engine=None))}
    for name in allocating_names():
        try:
            columns[name] = _cache(spec, run.changed(engine=name))
        except Refused:
            if run.engine == name:
                raise
            columns[name] = None
    return columns


def _cache(spec: ModelSpec, run: Run) -> Size:
    """The cache of the rank that has the most."""
    return largest(cache_on(spec, run, stage) for stage in stages(spec, run))


def cache_on(spec: ModelSpec, run: Run, stage: Stage) -> Size:
    """Bytes of the cache on one rank, in theory or as the run's engine allocates it.

    An adapter adds a prompt's vectors to it and nothing else; but where going back begins behind some layers, these are
    a part of their own in its tree, which no stage knows of.
    """
    plain = spec if spec.adapter is None else spec.model_copy(update={"adapter": None})
    request = run.changed(dtype=cache_dtype(run), seq=run.seq + prompt_vectors(spec))
    share = _of_rank(plain, run, stage)
    if run.engine is None:
        return sum(cache_terms(plain, request, share).values())
    rules = engine_named(run.engine)
    kinds = [
        _paged(*share(cache, leaf), leaf, plain, request.dtype, rules) for cache, leaf in cached_leaves(plain, request)
    ]
    return run.batch * allocated(_merged(kinds), request.seq, batched_tokens(run))


def cache_dtype(run: Run) -> str:
    """The number format of keys and values: the run's, else that of activations."""
    own = activation_dtype(run.dtype)
    return run.cache_dtype or (own if own in CACHE_DTYPES else "bf16")


def _of_rank(spec: ModelSpec, run: Run, stage: Stage) -> Callable[[Cache, Leaf], tuple[Cache, Size]]:
    """Heads are divided among tensor-parallel ranks, and shared by several where there are more ranks than heads."""

    def share(cache: Cache, leaf: Leaf) -> tuple[Cache, Size]:
        group = _group(leaf, spec)
        calls = leaf.calls if group.shared else stage.layers[group.name]
        if is_exactly(run.tp, 1):
            return cache, calls
        ranks = minimum(run.tp, cache.heads)
        cut = {name: ceil_div(getattr(cache, name), ranks) for name in ("per_token", "recurrent", "heads")}
        grouped = ceil_div(cache.grouped, minimum(run.tp, cache.groups))
        fixed = ceil_div(cache.fixed - cache.grouped, ranks) + grouped
        return replace(cache, fixed=fixed, grouped=grouped, **cut), calls

    return share


def _paged(cache: Cache, layers: Size, leaf: Leaf, spec: ModelSpec, dtype: str, rules: Engine) -> Paged:
    """How an engine lays out what a rank's layers keep. Errors: Refused for what its rules do not say exactly."""
    group, whole = _group(leaf, spec), leaf.calls
    node, width = group.mixer, number_format(dtype).width
    if isinstance(node, Mla):
        if node.pool is not None:
            raise Refused("engine", "tokens that are chosen one by one, as the engine's indexers do", "pools of tokens")
        if cache.index:
            size = cache.per_token + 4 * ceil_div(cache.per_token, INDEX_BLOCK)
        elif dtype == "fp8" and node.top_k is not None:
            if (node.kv_rank, node.d_rope) != SPARSE_LATENT[:2]:
                raise Refused("cache_dtype", "bf16 where fp8 latents are not 512 + 64 wide", dtype)
            size = SPARSE_LATENT[2]
        else:
            size = cache.per_token * width
        assert rules.allocation is not None, "a Run takes no other engine"
        return Paged(size, layers, whole, rules.allocation.latent_block)
    if not isinstance(node, Attention) or group.cross is not None or _keeps_more(group):
        raise Refused("engine", "a model that caches keys and values of its own tokens alone", type(node).__name__)
    if cache.window is not None and node.d_value not in (None, node.d_head):
        raise Refused("engine", "values as wide as keys in layers with a window", "a d_value")
    size = cache.per_token * width
    if dtype == "int8":
        # A scale in fp32 for each token and head, of keys and of values.
        size = size + 2 * 4 * cache.heads
    return Paged(size, layers, whole, rules.block, cache.window, node.chunked)


def _keeps_more(group: LayerGroup) -> bool:
    """Whether a layer keeps something beside its mixer's keys and values."""
    source = isinstance(group.mixer, Attention) and group.mixer.merged
    return source or group.shared_block is not None or (isinstance(group.channel, Mlp) and group.channel.shift)


def _merged(kinds: list[Paged]) -> list[Paged]:
    """Layers that are laid out alike, together."""
    found: list[Paged] = []
    for kind in kinds:
        alike = [i for i, one in enumerate(found) if replace(one, layers=kind.layers, whole=kind.whole) == kind]
        if alike:
            one = found[alike[0]]
            found[alike[0]] = replace(one, layers=one.layers + kind.layers, whole=one.whole + kind.whole)
        else:
            found.append(kind)
    return found


def _group(leaf: Leaf, spec: ModelSpec) -> LayerGroup:
    """The group of layers that a leaf stands in."""
    return next(group for group in spec.layers if group.name == leaf.group)


def activation_dtype(name: str) -> str:
    """The number format of activations where weights are in the format called `name`."""
    kind = weight_dtype(name)
    if isinstance(kind, Quantized):
        return kind.rest
    return name if kind.bits >= 16 else "bf16"


def batched_tokens(run: Run) -> Size | None:
    """How many tokens of prompts run in one pass; None for all."""
    if run.batched_tokens is None and run.engine is not None:
        return engine_named(run.engine).batched_tokens
    return run.batched_tokens
