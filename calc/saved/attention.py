"""What attention keeps."""

from __future__ import annotations

from dataclasses import replace

from calc.blocks.attention import head_sizes
from calc.errors import Refused
from calc.load import Load
from calc.saved.attend import Scores, Square, attend, rotated
from calc.saved.norms import norm
from calc.saved.tape import Lent, Tape, Tensor, same
from calc.sizes import Size, at_least, exact_div
from calc.spec import Attention, QkNorm


def attention(tape: Tape, spec: Attention, d_model: Size, x: Tensor, load: Load) -> Tensor:
    """Self-attention over [batch, seq, d_model]."""
    _check(spec)
    heads, kv_heads, d_head, d_value = head_sizes(spec, d_model)
    tokens = load.tokens
    q, k, v, gate = (_lent if spec.kv == "earlier" else _own)(tape, spec, d_model, x, load)
    if spec.temperature is not None:
        with tape.at("temperature"):
            q = tape.times(q, Tensor(load.seq, q.dtype, False, "none"))
    square = _square(load, heads, kv_heads, load.seq, d_head, d_value)
    scores = _scores(tape, spec, square, heads)
    if spec.position == "transformer-xl":
        q, scores = _by_distance(tape, d_model, q, square, scores)
    out = attend(tape, q, k, v, square, scores)
    if gate is not None:
        with tape.at("gate"):
            out = tape.times(out, tape.reads_result(gate))
    return tape.linear("o_proj", out, tokens, heads * d_value, d_model)


def _own(
    tape: Tape, spec: Attention, d_model: Size, x: Tensor, load: Load
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Queries, keys, values, and a gate or None: projected, normed, turned; lent to later layers."""
    heads, kv_heads, d_head, _ = head_sizes(spec, d_model)
    tokens = load.tokens
    q, k, v, gate = _projected(tape, spec, d_model, x, load)
    if spec.qk_norm is not None and not spec.qk_norm.turned:
        q, k = _normed(tape, spec.qk_norm, q, k, tokens, heads, kv_heads)
    if spec.clip is not None:
        with tape.at("clip"):
            q, k, v = (tape.reads_input(each) for each in (q, k, v))
    v = v if spec.value_scale == 1.0 else tape.like(v)
    if spec.v_norm is not None:
        v = norm(tape, "v_norm", spec.v_norm, v, tokens * kv_heads)
    if spec.position == "rope" and not spec.rope.inputs:
        q, k = rotated(tape, spec.rope, load.seq, d_head, q, k)
    if spec.qk_norm is not None and spec.qk_norm.turned:
        q, k = _normed(tape, spec.qk_norm, q, k, tokens, heads, kv_heads)
    tape.lent.append(Lent(spec.window, k, v, tape.saved))
    return q, k, v, gate


def _lent(tape: Tape, spec: Attention, d_model: Size, x: Tensor, load: Load) -> tuple[Tensor, Tensor, Tensor, None]:
    """As _own with the keys and values of an earlier layer. Errors: Refused for a gate, of which no twin tells."""
    if spec.gate or spec.clip is not None or spec.position not in ("rope", "none"):
        raise Refused("model", "borrowed keys without gate, clip or added positions", "some")
    heads, _, d_head, _ = head_sizes(spec, d_model)
    q = tape.linear("q_proj", x, load.tokens, d_model, heads * d_head, "tensor")
    if spec.qk_norm is not None and not spec.qk_norm.turned:
        q = _normed_one(tape, "q_norm", spec.qk_norm, q, load.tokens, heads)
    if spec.position == "rope":
        (q,) = rotated(tape, spec.rope, load.seq, d_head, q)
    if spec.qk_norm is not None and spec.qk_norm.turned:
        q = _normed_one(tape, "q_norm", spec.qk_norm, q, load.tokens, heads)
    _, k, v, kept = next(lent for lent in reversed(tape.lent) if _alike(lent.window, spec.window))
    tape.elsewhere |= {tensor for tensor in (k.base or k, v.base or v) if tensor in kept}
    return q, k, v, None


def _alike(a: Size | None, b: Size | None) -> bool:
    return a is b or (a is not None and b is not None and same(a, b))


def cross_attention(
    tape: Tape, spec: Attention, d_model: Size, d_source: Size, x: Tensor, source: Tensor, load: Load, n_source: Size
) -> Tensor:
    """Attention of [batch, seq, d_model] over [batch, n_source, d_source]."""
    _check(spec)
    heads, kv_heads, d_head, d_value = head_sizes(spec, d_model)
    read = load.batch * n_source
    placed = spec.position == "added"
    q = tape.linear("q_proj", tape.like(x) if placed else x, load.tokens, d_model, heads * d_head, "tensor")
    keyed = tape.like(source) if placed else source
    k = tape.linear("k_proj", keyed, read, d_source, kv_heads * d_head, "kv")
    v = tape.linear("v_proj", source, read, d_source, kv_heads * d_value, "kv")
    square = _square(load, heads, kv_heads, n_source, d_head, d_value)
    wide = spec.softmax == "fp32" or tape.settings.autocast_on_gpu
    out = attend(tape, q, k, v, square, Scores(wide))
    return tape.linear("o_proj", out, load.tokens, heads * d_value, d_model)


def _square(load: Load, heads: Size, kv_heads: Size, keys: Size, d_key: Size, d_value: Size) -> Square:
    rows = load.batch * heads
    # The same object where it is the same by description: arrays are not compared.
    kv_rows = rows if kv_heads is heads else load.batch * kv_heads
    return Square(load.batch, rows, kv_rows, load.seq, keys, d_key, d_value)


def _scores(tape: Tape, spec: Attention, square: Square, heads: Size) -> Scores:
    """What becomes of this attention's scores; keeps what says which rows of a table of distances are read."""
    s = tape.settings
    window = spec.masked_window if spec.window is None else spec.window
    hides = 0 if window is None else at_least(square.seq, window)
    mask = square.batch * square.seq * square.keys * hides
    own_table = spec.buckets is not None and not spec.buckets.shared
    if spec.position == "alibi" or spec.buckets is not None:
        mask, hides = heads * square.seq * square.keys, 1
    if own_table and not s.frozen:
        tape.keep(Tensor(square.seq * square.keys, "int64", False, "none"), "distances")
    for name in () if spec.shaw is None or s.frozen else ("relative_key", "relative_value")[: 1 + spec.shaw.values]:
        tape.keep(Tensor(square.seq * square.keys, "int64", False, "none"), name)
    added = tape.stream == "fp32" and (spec.causal or window is not None or spec.buckets is not None)
    wide = spec.softmax == "fp32" or s.autocast_on_gpu or (s.autocast and added) or spec.position == "alibi"
    trained = spec.buckets is not None and not s.frozen
    # Heads of which a part turns are put together from both parts.
    by_head = spec.position == "rope" and not spec.rope.inputs and spec.rope.fraction < 1 and not spec.rope.proportional
    covered = square.seq * square.keys if trained and spec.causal else 0
    return Scores(wide, spec.softcap is not None, spec.sinks, spec.shaw, mask, hides, trained, covered, by_head)


def _by_distance(tape: Tape, d_model: Size, q: Tensor, square: Square, scores: Scores) -> tuple[Tensor, Scores]:
    """Queries for the products with keys, with a vector added, and scores beside those, of all distances projected.

    Sinusoids of distances serve all layers.
    """
    distances = 2 * square.seq - 1
    name = f"sinusoids {d_model} wide"
    known = (tensor for tensor in tape.saved if tensor.common == name)
    sinusoids = next(known, Tensor(distances * d_model, q.dtype, False, "none", name))
    width = exact_div(square.rows, square.batch) * square.d_key
    vectors = tape.linear("pos_proj", sinusoids, distances, d_model, width, "tensor")
    # Trained vectors are as wide as all weights.
    placed = tape.like(q, Tensor(0, tape.settings.stream, not tape.settings.frozen))
    return placed, replace(scores, distances=vectors)


def _projected(
    tape: Tape, spec: Attention, d_model: Size, x: Tensor, load: Load
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Queries, keys, values, and a gate or None."""
    heads, kv_heads, d_head, d_value = head_sizes(spec, d_model)
    tokens = load.tokens
    queries, keys, values = heads * d_head, kv_heads * d_head, kv_heads * d_value
    wide = queries + heads * d_value if spec.gate else queries
    placed = x
    if spec.position == "added":
        placed = tape.like(x)
    elif spec.position == "rope" and spec.rope.inputs:
        (placed,) = rotated(tape, spec.rope, load.seq, exact_div(d_model, heads), x)
    if spec.fused:
        whole = tape.linear("qkv_proj", x, tokens, d_model, wide + keys + values, "tensor")
        q, k, v = whole.part(tokens * wide), whole.part(tokens * keys, "kv"), whole.part(tokens * values, "kv")
    else:
        q = tape.linear("q_proj", placed, tokens, d_model, wide, "tensor")
        k = tape.linear("k_proj", placed, tokens, d_model, keys, "kv")
        v = k if spec.kv == "keys" else tape.linear("v_proj", x, tokens, d_model, values, "kv")
    if not spec.gate:
        return q, k, v, None
    # Each head's queries and gates lie side by side, and are copied apart.
    gate = Tensor(tokens * heads * d_value, q.dtype, q.grad, "tensor")
    return Tensor(tokens * queries, q.dtype, q.grad, "tensor"), k, v, gate


def _normed(
    tape: Tape, spec: QkNorm, q: Tensor, k: Tensor, tokens: Size, heads: Size, kv_heads: Size
) -> tuple[Tensor, Tensor]:
    """Queries and keys through their norms."""
    return _normed_one(tape, "q_norm", spec, q, tokens, heads), _normed_one(tape, "k_norm", spec, k, tokens, kv_heads)


def _normed_one(tape: Tape, name: str, spec: QkNorm, x: Tensor, tokens: Size, n: Size) -> Tensor:
    vectors = tokens if spec.span == "all" else tokens * n
    return norm(tape, name, spec.norm, x, vectors, n if spec.span == "heads" else None)


def _check(spec: Attention) -> None:
    if spec.position == "rope" and spec.rope.plane is not None:
        raise Refused("model", "attention of which it is known what is kept", "positions in a plane")
    if spec.squares is not None:
        raise Refused("model", "attention of which it is known what is kept", "squares of patches")
