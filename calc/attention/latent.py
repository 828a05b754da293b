"""What decoding costs with latent attention, expanded and absorbed, and what grouping of heads saves."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from calc.attention.cost import Cost
from calc.attention.flash import flash
from calc.attention.shape import AttentionShape
from calc.attention.tiles import Blocks
from calc.errors import Refused
from calc.sizes import Size


def latent(shape: AttentionShape, absorbed: bool) -> Cost:
    """Attention of `shape`, forward and without masks, from a cache [batch, 1, keys, kv_rank + d_rope].

    absorbed: queries are multiplied with the keys' matrix and outputs with the values' (DeepSeek-V2, arXiv:2405.04434,
    section 2.1.2), and each token's latent is read once for scores and values together. Else keys and values of all
    tokens are expanded first, written and read again. Every tensor between two steps is written and read once.
    Errors: Refused without kv_rank and d_rope.
    """
    if shape.kv_rank is None or shape.d_rope is None:
        raise Refused("kv_rank", "a width, of latent attention", None)
    d_nope, rank, item = shape.d_head - shape.d_rope, shape.kv_rank, shape.item
    cache = shape.batch * shape.keys * (rank + shape.d_rope)
    matrix = shape.heads * rank * (d_nope + shape.d_value)
    rows = shape.batch * shape.heads * shape.seq
    pairs = rows * shape.keys
    if absorbed:
        between = rows * (rank + rank)
        return Cost(
            flops=2 * rows * rank * (d_nope + shape.d_value) + 2 * pairs * (2 * rank + shape.d_rope),
            exponentials=pairs,
            read=item * (cache + matrix + rows * shape.d_head + between),
            written=item * (rows * shape.d_value + between),
            peak=item * between,
        )
    expanded = shape.batch * shape.heads * shape.keys * (d_nope + shape.d_value)
    return Cost(
        flops=2 * expanded * rank + 2 * pairs * (shape.d_head + shape.d_value),
        exponentials=pairs,
        read=item * (cache + matrix + expanded + rows * shape.d_head),
        written=item * (expanded + rows * shape.d_value),
        peak=item * expanded,
    )


class Grouping(NamedTuple):
    """One way to keep keys and values. cached: bytes a token. cost: of one decode step's attention."""

    name: str
    shape: AttentionShape
    cached: Size
    cost: Cost


def sharings(heads: int, kv_heads: int | None = None) -> tuple[int, ...]:
    """Numbers of key heads to look at with so many query heads: all, those of the model, 8 where they divide, one."""
    usual = {8} if heads % 8 == 0 else set()
    return tuple(sorted({heads, kv_heads or heads, 1} | usual, reverse=True))


def sharing(heads: int, kv_heads: int) -> str:
    """The name of attention whose heads share keys so."""
    return {1: "MQA", heads: "MHA"}.get(kv_heads, f"GQA-{kv_heads}")


def groupings(shape: AttentionShape, kv_heads: tuple[int, ...], kv_rank: int = 512, d_rope: int = 64) -> list[Grouping]:
    """Decoding with each number of key heads, then with latents, naive and absorbed.

    shape: of the step, with query heads of d_head. With groups the whole group reads each key once. Latent attention's
    heads have d_rope more for positions (as DeepSeek-V2's: 128 + 64).
    """
    found = []
    for count in kv_heads:
        each = replace(shape, kv_heads=count)
        name = sharing(shape.heads, count)
        cost = flash(each, Blocks(each.group * each.seq, 64))
        found.append(Grouping(name, each, each.item * count * (each.d_head + each.d_value), cost))
    wide = replace(
        shape, kv_heads=shape.heads, d_head=shape.d_head + d_rope, d_value=shape.d_head, kv_rank=kv_rank, d_rope=d_rope
    )
    for name, absorbed in (("MLA, expanded", False), ("MLA, absorbed", True)):
        found.append(Grouping(name, wide, wide.item * (kv_rank + d_rope), latent(wide, absorbed)))
    return found
