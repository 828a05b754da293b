"""From bytes to patches and back, between groups of layers (BLT).

Source: Pagnoni et al. 2024 (arXiv:2412.09871); transformers 5.23, models/blt/modeling_blt.py.
"""

from __future__ import annotations

from dataclasses import replace

from calc.blocks.surroundings import Surroundings
from calc.errors import Refused
from calc.sizes import Size, is_exactly, quotient
from calc.spec import PatchAttention, Patched
from calc.spec.load import Load
from calc.trace.functions import Attend
from calc.trace.primitives.attend_live import Scoring
from calc.trace.primitives.attend_saved import Square
from calc.trace.primitives.patch_max import patch_max
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


def patched(t: Trace, name: str, spec: Patched, x: Tensor, load: Load, around: Surroundings) -> tuple[Tensor, Load]:
    """x [batch * seq, d] -> [batch * patches, width of a patch], and the load of these. name: of the layers that read
    them. The bytes' vectors stay, for the layers that read them again.

    Errors: Refused for bytes that are cached: which patches a new one changes follows from the text.
    """
    if not is_exactly(load.context, 0):
        raise Refused("context", "0 where bytes become patches, which new bytes would change", load.context)
    n = spec.count(load.seq)
    around.unpatched = x, load
    with t.part(f"patches.{name}", x, of="other") as out:
        y = patch_max(t, "largest", x, load.batch * n)
        y = t.linear("project", y, spec.vectors * x.width, inside=False)
        y = y.view(load.batch * n * spec.vectors, x.width)
        y = patch_attention(t, spec.reader, y, x, (load.batch, n * spec.vectors, load.seq))
        y = y.view(load.batch * n, spec.vectors * x.width)
        out.append(y if spec.d_patch is None else t.linear("widen", y, spec.d_patch, inside=False))
    return out[0], replace(load, seq=n)


def unpatched(t: Trace, name: str, vectors: int, x: Tensor, load: Load, around: Surroundings) -> tuple[Tensor, Load]:
    """The bytes' vectors as they were ahead of patches, and their load. Of each patch's vector, x [batch * patches,
    width], a matrix makes `vectors` as wide as a byte's, which layers read from now on."""
    assert around.unpatched is not None
    own, its_load = around.unpatched
    with t.part(f"patches.{name}", x, of="other") as out:
        y = t.linear("project", x, vectors * own.width, inside=False)
        around.patches = _shared(t, y.view(x.rows * vectors, own.width)), load.seq * vectors
        out.append(y)
    return own, its_load


def _shared(t: Trace, x: Tensor) -> Tensor:
    """x, which all layers behind read, and keep once."""
    y = t.made(x.rows, x.width, x)
    return t.silent("shared", (x,), y, lambda tape, read: replace(read.base or read, common="vectors of patches"))


def patch_attention(
    t: Trace, spec: PatchAttention, x: Tensor, source: Tensor, sizes: tuple[Size, Size, Size], *, layers: bool = False
) -> Tensor:
    """x [batch * queries, d] with what it reads of source [batch * keys, d]; sizes: (batch, queries, keys). layers:
    whether it stands in layers, all of which are given one mask.

    All pairs are multiplied, and those hidden of which neither belongs to the other: FLOPs 4 * batch * heads * d_head *
    queries * keys beside the projections'.
    """
    batch, queries, keys = sizes
    heads, kv_heads, d_head = spec.n_heads, spec.kv_heads, spec.d_head
    name = "patch_attention" if layers else "attention"
    with t.part(name, x, source, of="attention", region="cross") as out:
        read, known = t.norm("q_norm", spec.norm, x), t.norm("k_norm", spec.norm, source)
        q = t.linear("q_proj", read, heads * d_head)
        k, v = (t.linear(f"{each}_proj", known, kv_heads * d_head) for each in "kv")
        rows = batch * heads
        kv_rows = rows if is_exactly(kv_heads, heads) else batch * kv_heads
        y = t.attend(
            q,
            k,
            v,
            Attend(batch * kv_heads, quotient(heads, kv_heads), queries, keys, d_head, d_head, causal=False),
            Square(batch, heads, rows, kv_rows, queries, keys, d_head, d_head),
            2 * batch * queries * keys * heads,
            Scoring(mask=batch * queries * keys, masked=True, wide_mask=True, common_mask=layers),
        )
        y = t.add("inner_add", t.linear("o_proj", y, x.width), x)
        out.append(t.add("add", x, y))
    return out[0]
