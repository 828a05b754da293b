"""A number for each key, made of its values, which every query adds to its scores: dynamic mask attention."""

from __future__ import annotations

from calc.sizes import Size, at_least, is_exactly, maximum
from calc.spec.load import Load
from calc.trace.footprint import Footprint
from calc.trace.op import Moves
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


def dynamic_mask(
    t: Trace, keep: Size, v: Tensor, heads: Size, kv_heads: Size, load: Load, cached: Size, *, bias: bool
) -> Tensor:
    """v: values of the new tokens -> [batch * heads * seq, keys], what is added to the scores, causal mask included.

    2 * batch * keys * n_kv_heads^2 * d_value FLOPs: the numbers of all keys, those in the cache too, are made again in
    every step. Of more than `keep` keys, a query hides all but those of its `keep` largest numbers.
    Source: Shi et al. 2025, arXiv:2508.02124; transformers 5.23, models/doge/modeling_doge.py, DogeAttention.
    """
    keys = cached + load.seq
    rows, read = load.batch * keys, load.batch * cached * v.width

    def moves() -> Moves:
        return Moves(v.elements, rows * kv_heads, cache_reads=read)

    with t.part("dynamic_mask", v) as out:
        made = t.linear("proj", v.view(rows, v.width), kv_heads, bias=bias, moves=moves)
        decay = t.weight("decay", kv_heads)
        mask = t.made(load.batch * heads * load.seq, keys, made, weights=(decay,), split="tensor")

        def keeps(tape: Tape, given: Storage) -> Storage:
            tape.written_out("a dynamic mask")
            numbers = tape.reads_input(tape.cast(given, "fp32") if tape.settings.autocast_on_gpu else given)
            if decay.trainable:
                tape.keep(numbers, "numbers of keys")
            wide = "fp32" if tape.settings.stream == "fp32" else numbers.dtype
            grad = numbers.grad or decay.trainable
            numbers = tape.reads_result(Storage(numbers.elements, wide, grad))
            if grad:
                tape.keep(Storage(load.batch * load.seq * keys, "bool", False, "none"), "what is hidden")
                more = at_least(keys, keep + 1)
                if not is_exactly(more, 0):
                    tape.keep(
                        Storage(more * load.batch * kv_heads * load.seq * keys, "bool", False), "what is left out"
                    )
            return Storage(mask.elements, wide, grad, "tensor")

        def live_bytes(footprint: Footprint) -> Size:
            """A mask for each key-value head, then for each head; to choose, three of the former beside the causal one,
            the numbers of what is chosen, and a byte for each pair."""
            each = load.batch * kv_heads * load.seq
            masks, causal = footprint.of(Tensor(each, keys)), footprint.of(Tensor(load.batch * load.seq, keys))
            chooses = at_least(keys, keep + 1) * (3 * masks + causal + each * (8 * keep + keys))
            return maximum(footprint.of(mask) + (0 if is_exactly(heads, kv_heads) else masks), chooses)

        fields = {"weights": (decay,), "keeps": keeps, "live_bytes": live_bytes}
        t.op("spread", "elementwise", "other", (made,), (mask,), **fields)
        out.append(mask)
    return mask
