"""`complexity`: how the cost of mixing tokens grows, by kind of layer."""

from __future__ import annotations

from typing import Any

import click

from calc.cli import options
from calc.output.tables import Table, emit
from calc.teaching.complexity import DECODINGS, LAYER_KINDS, Decoding, LayerKind, Shape


@click.command(short_help="Self-attention against recurrence, convolution and sparse kinds.")
@click.option("--seq", type=options.Length(2), default=1024, show_default=True, help="n, tokens.")
@click.option("--d-model", type=options.Tokens(), default=512, show_default=True, help="d, width.")
@click.option("--kernel", type=options.Tokens(2), default=3, show_default=True, help="k, kernel of a convolution.")
@click.option("--window", type=options.Tokens(2), default=256, show_default=True, help="r, local attention's window.")
@click.option("--block", type=options.Tokens(), default=64, show_default=True, help="b, block of sparse attention.")
@click.option("--rank", type=options.Tokens(), default=256, show_default=True, help="p, low-rank length.")
@click.option("--features", type=options.Tokens(), default=64, show_default=True, help="m, features of a kernel.")
@click.option("--vocab-size", type=options.Tokens(), default=50257, show_default=True, help="K, tokens to choose from.")
@click.option("--length", type=options.Tokens(), default=20, show_default=True, help="N, tokens to choose.")
@click.option("--beam", type=options.Tokens(), default=4, show_default=True, help="B, beams.")
@options.output
def complexity(fmt: str, vocab_size: int, length: int, beam: int, **sizes: int) -> None:
    """Compare kinds of layers by FLOPs, memory, steps that must follow one another, and path between two tokens.

    FLOPs are of the mixing alone: all kinds of attention share 8 n d^2 of projections. Below stand ways of decoding by
    the continuations they look at.

    \b
    Examples:
      python -m calc complexity
      python -m calc complexity --seq 50176 --d-model 768
    """
    shape = Shape(*(sizes[name] for name in ("seq", "d_model", "kernel", "window", "block", "rank", "features")))
    records = [_layer(kind, shape) for kind in LAYER_KINDS]
    both = list(zip(LAYER_KINDS, records, strict=True))
    work = [(kind.name, f"{each['flops']:,}", f"O({kind.order})", f"{each['steps']:,}") for kind, each in both]
    shown = [
        (kind.name, f"{each['memory']:,}", kind.memory_order, f"{each['path']:,}", kind.path_order)
        for kind, each in both
    ]
    decodings = [_decoding(way, vocab_size, length, beam) for way in DECODINGS]
    searched = [(way["decoding"], f"10^{way['log10_continuations']:.1f}", f"O({way['order']})") for way in decodings]
    tables = [
        Table(("layer", "FLOPs", "order", "steps"), work, f"one layer, n = {shape.n:,}, d = {shape.d:,}"),
        Table(("layer", "elements kept", "order", "path", "order"), shown),
        Table(("decoding", "continuations", "order"), searched, f"K = {vocab_size:,}, N = {length:,}, B = {beam:,}"),
    ]
    emit([*records, *decodings], tables, fmt)


def _layer(kind: LayerKind, shape: Shape) -> dict[str, Any]:
    return {
        "layer": kind.name,
        "flops": kind.flops(shape),
        "order": kind.order,
        "memory": kind.memory(shape),
        "steps": kind.steps(shape),
        "path": kind.path(shape),
        "source": kind.source,
    }


def _decoding(way: Decoding, vocab_size: int, length: int, beam: int) -> dict[str, Any]:
    return {"decoding": way.name, "log10_continuations": way.log10(vocab_size, length, beam), "order": way.order}
