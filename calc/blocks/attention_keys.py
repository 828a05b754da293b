"""The keys and values that an attention's queries meet: cached, a prefix's, its tokens' own, an encoder's."""

from __future__ import annotations

from typing import NamedTuple

from calc.blocks.adapters import prefix, prefix_length
from calc.blocks.attention_inputs import head_sizes
from calc.blocks.block_indexer import twice_unseen
from calc.blocks.merged_attention import with_source
from calc.blocks.surroundings import Surroundings
from calc.sizes import Size
from calc.spec import Attention
from calc.spec.load import Load
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


class Known(NamedTuple):
    """How many keys each sequence has, the cache's, a prefix's and an encoder's among them.

    ahead: a prefix's, in front of all others; None: there is no prefix. read: an encoder's, behind all others.
    window: of how many keys behind it, those among them, a query sees any. twice_pairs: twice the pairs that are met.
    """

    keys: Size
    cached: Size
    ahead: Size | None
    read: Size
    window: Size | None
    twice_pairs: Size


def known_keys(
    t: Trace, spec: Attention, k: Tensor, v: Tensor, d_model: Size, load: Load, around: Surroundings
) -> tuple[Tensor, Tensor, Known]:
    """Keys and values with those of a prefix ahead and those of an encoder behind, and how many there are."""
    heads, kv_heads, d_head, d_value = head_sizes(spec, d_model)
    cached, ahead = load.cached(spec.window), prefix_length(t)
    keys = cached + load.seq
    twice_pairs = load.batch * heads * load.twice_pairs(spec.window, spec.causal, spec.chunked)
    if spec.indexer is not None:
        twice_pairs = twice_pairs - load.batch * heads * twice_unseen(spec.indexer, load)
    if ahead is not None:
        k, v = prefix(t, spec, (kv_heads, d_head, d_value), load, k, v)
        keys, twice_pairs = keys + ahead, twice_pairs + 2 * load.tokens * heads * ahead
    read, window = 0, spec.window
    if spec.merged:
        k, v = with_source(t, spec, k, v, d_model, around)
        read = around.length
        keys, twice_pairs = keys + read, twice_pairs + 2 * load.tokens * heads * read
        cached = cached + read if load.decode else cached
        window = None if window is None else window + read
    return k, v, Known(keys, cached, ahead, read, window, twice_pairs)
