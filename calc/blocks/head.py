"""Logits out: the heads behind a stack, and the dense layers before them."""

from __future__ import annotations

from contextlib import nullcontext

from calc.blocks.embedding import TOKEN_TABLE
from calc.sizes import Size, exact_div, is_exactly
from calc.spec import Embedding, Head, Projection
from calc.spec.load import Load
from calc.trace.shard import VOCABULARY
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


def head(t: Trace, spec: Head, embed: Embedding, vocab_size: Size, x: Tensor) -> Tensor:
    """x [batch * seq, d_model] -> logits [batch * seq, vocab_size]: 2 * tokens * width * vocab_size FLOPs.

    width: that of the token table. A transform (BERT) or a plain matrix (OPT) brings vectors of d_model to it.
    """
    width = x.width if embed.d_embed is None or spec.own_width else embed.d_embed
    rows = spec.columns(vocab_size)
    with t.part("lm_head", x, of="lm_head", role="head") as out:
        if spec.transform is not None:
            x = t.linear("transform", x, width, bias=spec.transform_bias, inside=False)
            x = t.norm("transform_norm", spec.transform, t.activation("activation", spec.activation, x))
        elif embed.d_embed is not None and not spec.own_width:
            x = t.linear("project_out", x, width, inside=False)
        key, bias = TOKEN_TABLE if spec.tied else "weight", "bias" if spec.bias else None
        logits = t.linear("logits", x, rows, key=key, bias_key=bias, shard=VOCABULARY, inside=False)
        if spec.scale != 1.0:
            logits = t.scaled("scale", logits)
        if spec.softcap is not None:
            logits = t.softcap("softcap", logits)
        out.append(logits)
    return logits


def projections(
    t: Trace, specs: tuple[Projection, ...], x: Tensor, load: Load, tokens: Size, filled: Tensor | None = None
) -> Tensor:
    """All dense layers behind a stack whose result is x [batch * seq, d_model]; what the last read one gives, or x.

    tokens: of a text, ahead of the picture behind it, if any. filled: x with what filled texts up still behind them, of
    which the first vectors are a view.
    """
    made: dict[str, tuple[Tensor, bool]] = {}
    for spec in specs:
        if spec.idle:
            with t.part(spec.name, x, of="other"):
                _idle(t, spec, x.width)
            made[spec.name] = x, False
            continue
        read, pooled = (x, False) if spec.reads is None else made[spec.reads]
        if spec.per == "text":
            read = _text(t, read, load.batch, tokens)
        if filled is not None and read is x and spec.per == "sequence" and spec.pool == "first":
            read = filled
        dead = t.without_gradient() if spec.unread else nullcontext()
        with t.part(spec.name, read, of="other") as out, dead:
            made[spec.name] = _projection(t, spec, x.width, read, load, pooled)
            out.append(made[spec.name][0])
    read_on = [spec.name for spec in specs if not spec.unread]
    return made[read_on[-1]][0] if read_on else x


def _text(t: Trace, x: Tensor, batch: Size, tokens: Size) -> Tensor:
    """The first vectors of each sequence: a view of one, a copy of those of several."""
    if is_exactly(batch, 1):
        return x.view(tokens, x.width)
    return t.joined(x, rows=batch * tokens, width=x.width)


def _idle(t: Trace, spec: Projection, d_model: Size) -> None:
    """The weights of a layer that no pass runs."""
    d_in, d_out = (d_model if width is None else width for width in (spec.d_in, spec.d_out))
    weights = (t.weight("dense.weight", d_out, d_in, of="other"),)
    if spec.bias:
        weights += (t.weight("dense.bias", d_out, of="other"),)
    t.parameters("dense", weights, 0, d_in)


def _projection(t: Trace, spec: Projection, d_model: Size, x: Tensor, load: Load, pooled: bool) -> tuple[Tensor, bool]:
    """A dense layer on every token, on one vector a sequence, or on `merge` tokens side by side; and whether its result
    has one vector for each sequence."""
    d_in, d_out = (d_model if width is None else width for width in (spec.d_in, spec.d_out))
    once = spec.per == "sequence"
    if once and not pooled:
        # One of the vectors is a view, with which all of them stay; a mean is a tensor of its own.
        one = spec.pool in ("first", "second", "last")
        x = x.view(load.batch, d_in) if one else t.pooled("pool", x, load.batch, spec.pool)
    if spec.every > 1:
        x = x.view(exact_div(x.rows, spec.every), d_in)
    if spec.before is not None:
        x = t.norm("before", spec.before, x)
    if spec.activation_before is not None:
        x = t.activation("activation_before", spec.activation_before, x)
    if spec.merge > 1:
        x = x.view(exact_div(x.rows, spec.merge), spec.merge * d_in)
    y = t.linear("dense", x, d_out, bias=spec.bias, inside=False)
    if spec.activation is not None:
        y = t.activation("activation", spec.activation, y)
    return (y if spec.norm is None else t.norm("norm", spec.norm, y)), pooled or once
