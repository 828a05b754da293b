"""Denoisers: layers that their conditioning modulates, and what is left of the noise behind them.

Source: Peebles and Xie 2023 (arXiv:2212.09748, section 3.2); Esser et al. 2024 (arXiv:2403.03206, section 4);
diffusers 0.42, models/transformers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from calc.blocks.attention import square_of
from calc.blocks.mlp import mlp
from calc.blocks.surroundings import Surroundings
from calc.sizes import Size, exact_div, is_exactly
from calc.spec import Conditioning, Denoised, Denoising, Latents, Mlp, Norm, Plane, Rope, Stack
from calc.spec.load import Load
from calc.trace.echo import echo
from calc.trace.functions import Attend
from calc.trace.part import Part
from calc.trace.primitives.attend_live import Scoring
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace

TURNED = Rope(interleaved=True, plane=Plane())
"""Places in a plane: their cosines and sines stay in fp32."""


def conditioning(t: Trace, spec: Conditioning, d_model: Size, load: Load, *, again: bool = False) -> Tensor:
    """[batch, d_model]: FLOPs 2 * batch * d_model * (width + d_model) for each pair of dense layers.

    again: whether these matrices have been multiplied with before, so that autocast's copies of them are there.
    """
    how: dict[str, Any] = {"bias": True, "inside": False, "again": again}

    def pair(name: str, width: Size) -> Tensor:
        first = t.linear(f"{name}1", t.constant(load.batch, width), d_model, **how)
        return t.linear(f"{name}2", t.activation(f"{name}_silu", "silu", first), d_model, **how)

    with t.part("conditioning", of="other") as out:
        x = pair("time", spec.d_time)
        if spec.guidance:
            x = t.add("guidance_add", x, pair("guidance", spec.d_time))
        if spec.d_pooled is not None:
            x = t.add("pooled_add", x, pair("pooled", spec.d_pooled))
        if spec.n_classes is not None:
            table = t.weight("class.weight", spec.n_classes, d_model, of="embedding")
            x = t.add("class_add", x, t.gather("class", (table,), load.batch, d_model, of="embedding"))
        out.append(x)
    return x


def shared_conditioning(t: Trace, spec: Latents, d_model: Size, load: Load) -> Tensor | None:
    """That of all layers, kept once for them and for what stands behind."""
    if spec.conditioning is None:
        return None
    x = conditioning(t, spec.conditioning, d_model, load)
    name = "the conditioning"
    return t.silent(name, (x,), x.view(x.rows, x.width), lambda tape, read: replace(read, common=name, split="none"))


def denoising(t: Trace, spec: Denoising, x: Tensor, load: Load, around: Surroundings) -> Tensor:
    """One layer: x [batch * (n_text + patches), d_model] -> the same, or of the last with a text the patches alone."""
    given = around.conditioning if spec.conditioning is None else conditioning(t, spec.conditioning, x.width, load)
    assert given is not None
    if spec.streams == "joined":
        return _joined(t, spec, x, load, given)
    if spec.streams == "picture":
        read, more = _read(t, spec, "", x, given, 6)
        (seen,) = _attention(t, spec, "attention", (("", read),), load)
        return _finished(t, spec, "", x, seen, more)
    return _beside(t, spec, x, load, around, given)


def _beside(t: Trace, spec: Denoising, x: Tensor, load: Load, around: Surroundings, given: Tensor) -> Tensor:
    """Text and patches, each with weights of its own, in one attention."""
    text = x.view(load.batch * around.n_text, x.width)
    x = x.view(load.batch * (load.seq - around.n_text), x.width)
    read, more = _read(t, spec, "", x, given, 9 if spec.dual else 6)
    text_read, of_text = _read(t, spec, "text_", text, given, 2 if spec.streams == "text_ends" else 6)
    both = ("text_", text_read), ("", read)
    heard, seen = _attention(t, spec, "attention", both, load)
    y = _finished(t, spec, "", x, seen, more, replace(load, seq=load.seq - around.n_text))
    if spec.streams == "text_ends":
        return y
    return _together(t, _finished(t, spec, "text_", text, heard, of_text), y)


def _read(t: Trace, spec: Denoising, prefix: str, x: Tensor, given: Tensor, n: int) -> tuple[Tensor, list[Tensor]]:
    """What attention reads of x, and the other n - 2 parts of the modulation: a gate, shift, scale and gate of the
    feed-forward block, and what a second attention reads and its gate, where there is one."""
    shift, scale, *more = _modulation(t, f"{prefix}modulation", given, n, x.width)
    normed = _norm(t, f"{prefix}attention_norm", spec, x)
    read = _shifted(t, f"{prefix}attention", normed, scale, shift)
    if n == 9:
        *more, shift, scale, gate = more
        more += [_shifted(t, f"{prefix}dual", normed, scale, shift), gate]
    return read, more


def _finished(
    t: Trace, spec: Denoising, prefix: str, x: Tensor, seen: Tensor | None, more: list[Tensor], load: Load | None = None
) -> Tensor:
    """x with what attention gave, and with the feed-forward block behind it, each through a gate."""
    gate, shift, scale, last, *dual = more
    assert seen is not None
    x = t.add(f"{prefix}attention_add", x, t.times(f"{prefix}attention_gate", seen, gate))
    if dual and load is not None:
        (again,) = _attention(t, spec, "dual_attention", (("", dual[0]),), load)
        assert again is not None
        x = t.add("dual_add", x, t.times("dual_gate", again, dual[1]))
    read = _shifted(t, f"{prefix}mlp", _norm(t, f"{prefix}mlp_norm", spec, x), scale, shift)
    with t.part(f"{prefix}mlp", read, of="mlp") as out:
        out.append(mlp(t, Mlp(d_ff=spec.d_ff, bias=True, activation=spec.activation), read))
    return t.add(f"{prefix}mlp_add", x, t.times(f"{prefix}mlp_gate", out[0], last))


def _joined(t: Trace, spec: Denoising, x: Tensor, load: Load, given: Tensor) -> Tensor:
    """Attention and the feed-forward block's first matrix side by side, and one matrix behind both."""
    shift, scale, gate = _modulation(t, "modulation", given, 3, x.width)
    read = _shifted(t, "norm", _norm(t, "norm", spec, x), scale, shift)
    (seen,) = _attention(t, spec, "attention", (("", read),), load, projects=False)
    assert seen is not None
    with t.part("mlp", read, of="mlp") as out:
        d_ff = 4 * x.width if spec.d_ff is None else spec.d_ff
        out.append(t.activation("activation", spec.activation, t.linear("up_proj", read, d_ff, bias=True)))
    both = t.joined(seen, out[0], rows=x.rows, width=x.width + d_ff)
    return t.add("add", x, t.times("gate", t.linear("out_proj", both, x.width, bias=True, of="mlp"), gate))


def _attention(
    t: Trace,
    spec: Denoising,
    name: str,
    reads: tuple[tuple[str, Tensor], ...],
    load: Load,
    *,
    projects: bool = True,
) -> list[Tensor | None]:
    """What each stream, by the prefix of its weights, gets of all of them together; None for a text that ends here.

    FLOPs of scores and values: 4 * batch * d_model * (n_text + patches)^2.
    """
    width, heads = reads[0][1].width, spec.n_heads
    d_head = exact_div(width, heads)
    with t.part(name, *(x for _, x in reads), of="attention") as out:
        made = [[t.linear(f"{p}{w}_proj", x, width, bias=spec.bias or len(reads) > 1) for w in "qkv"] for p, x in reads]
        if spec.qk_norm is not None:
            norm = spec.qk_norm
            for (p, _), of_stream in zip(reads, made, strict=True):
                of_stream[:2] = (
                    t.norm(f"{p}{w}_norm", norm, each, each=heads) for w, each in zip("qk", of_stream, strict=False)
                )
        q, k, v = made[0]
        if len(reads) > 1:
            q, k, v = (
                t.joined(*parts, rows=parts[0].rows + parts[1].rows, width=width) for parts in zip(*made, strict=True)
            )
        if spec.axes is not None:
            q, k = t.rope("rope", TURNED, load.seq, d_head, q, k)
        shape = Attend(load.batch * heads, 1, load.seq, load.seq, d_head, d_head, causal=False)
        square = square_of(load, heads, heads, load.seq, d_head, d_head)
        # Streams that are not turned are laid side by side head by head.
        how = Scoring(softmax="model", by_head=len(reads) > 1 and spec.axes is None)
        y = t.attend(q, k, v, shape, square, 2 * load.batch * heads * load.seq * load.seq, how)
        # In the queries' format, which a norm may have widened.
        like = y.view(y.rows, y.width)
        y = t.silent("as queries", (y, q), like, lambda tape, made, asked: tape.cast(made, asked.dtype))
        given: list[Tensor | None] = [y] if len(reads) == 1 else [_rows(t, y, x.rows, load) for _, x in reads]
        if spec.streams == "text_ends" and len(reads) > 1:
            given[0] = None
        if projects:
            given = [
                None if part is None else t.linear(f"{p}o_proj", part, width, bias=True)
                for (p, _), part in zip(reads, given, strict=True)
            ]
        out += [part for part in given if part is not None]
    return given


def _rows(t: Trace, x: Tensor, rows: Size, load: Load) -> Tensor:
    """One stream's rows: a view of one picture's, a copy of those of several."""
    return x.view(rows, x.width) if is_exactly(load.batch, 1) else t.joined(x, rows=rows, width=x.width)


def _together(t: Trace, text: Tensor, x: Tensor) -> Tensor:
    return t.joined(text, x, rows=text.rows + x.rows, width=x.width)


def _modulation(t: Trace, name: str, given: Tensor, n: int, width: Size) -> list[Tensor]:
    """n vectors of each picture, side by side in what one matrix makes of the conditioning."""
    y = t.linear(name, t.activation(f"{name}_silu", "silu", given), n * width, bias=True, of="other")
    return [y.columns(width) for _ in range(n)]


def _norm(t: Trace, name: str, spec: Denoising, x: Tensor) -> Tensor:
    return t.norm(name, Norm(kind="layernorm", affine=False, eps=spec.eps), x)


def _shifted(t: Trace, name: str, x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """x * (1 + scale) + shift, of one vector each for every picture."""
    return t.add(f"{name}_shift", t.times(f"{name}_scale", x, t.scaled(f"{name}_one", scale)), shift)


def denoised(t: Trace, of: Stack, spec: Denoised, x: Tensor, load: Load, around: Surroundings) -> tuple[Tensor, Load]:
    """x as the last layer leaves it -> [batch * patches, d_out], and the load of these."""
    first, last = of.layers[0].denoising, of.layers[-1].denoising
    assert first is not None
    assert last is not None
    load = replace(load, seq=load.seq - around.n_text)
    if last.streams == "joined":
        x = x.view(load.tokens, x.width)
    given = around.conditioning
    if spec.remakes_conditioning and first.conditioning is not None:
        of_first = first.conditioning
        body, given = t.captured(lambda: conditioning(t, of_first, x.width, load, again=True))
        t.body += [replace(echo(part), name=f"{part.name} (again)") for part in body if isinstance(part, Part)]
    assert given is not None
    with t.part("denoised", x, given, of="other") as out:
        shift, scale = _modulation(t, "modulation", given, 2, x.width)
        y = _shifted(t, "norm", _norm(t, "norm", last, x), scale, shift)
        out.append(t.linear("out_proj", y, spec.d_out, bias=True, inside=False))
    return out[0], load
