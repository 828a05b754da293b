"""`attention`: standard attention against FlashAttention, and what grouping of heads saves in decoding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import click
from click.core import ParameterSource

from calc.attention import AttentionShape, Blocks, Cost, best_blocks, flash, standard
from calc.attention.shape import ITEM_BITS
from calc.cli import options
from calc.cli.output import Table, emit
from calc.errors import Refused
from calc.hardware import load_device
from calc.spec.hardware import Device
from calc.units import binary, parse_bytes, si

_PRESETS = ("flashattention-table", "kv-grouping")
_RESERVED = 1024
"""Bytes of a multiprocessor's memory that CUDA keeps for itself in each block, from compute capability 8.0 on (CUDA C++
Programming Guide, shared memory of compute capability 8.x and 9.0)."""


@click.command(short_help="Standard attention against FlashAttention: FLOPs, bytes, memory.")
@click.option("--seq", type=options.Tokens(), default=2048, show_default=True, help="New tokens.")
@click.option("--keys", type=options.Tokens(), help="Cached and new tokens. [default: --seq]")
@click.option("--heads", type=options.Tokens(), default=32, show_default=True, help="Query heads.")
@click.option("--kv-heads", type=options.Tokens(), help="Key and value heads. [default: --heads]")
@click.option("--d-head", type=options.Tokens(), default=128, show_default=True, help="Width of a head.")
@options.batch
@click.option("--dtype", type=click.Choice(list(ITEM_BITS)), default="bf16", show_default=True, help="Of the inputs.")
@click.option("--causal", is_flag=True, help="A query sees the keys up to its position.")
@click.option("--window", type=options.Tokens(), help="Of those, only the last N.")
@click.option("--backward", is_flag=True, help="Forward and backward.")
@click.option("--sram", metavar="BYTES", help="On-chip memory for one tile. [default: 192KiB, or what --gpu has]")
@click.option("--gpu", metavar="NAME", help="A device of `gpus`: its on-chip memory, and which bound is met.")
@click.option("--blocks", metavar="ROWSxCOLUMNS", help="Tiles. [default: the cheapest of those that fit]")
@click.option("--preset", type=click.Choice(_PRESETS), help="A case that is known, in place of sizes.")
@options.output
def attention(fmt: str, preset: str | None, gpu: str | None, **asked: Any) -> None:
    """FLOPs, bytes and memory of one call of attention: standard, with every score in memory, and flash, tile by tile.

    Bytes are those between main memory and the chip, exactly as a tiled kernel with these tiles reads and writes them;
    sums and square tiles count as on-chip memory, where a GPU has registers for them. Flash skips tiles that masks
    hide, and computes the scores again backward.

    --preset flashattention-table: the table of GPT-2 medium that lecture notes print, each figure beside our count.
    --preset kv-grouping: one decode step of 32 heads of 128 with 32, 8 and 1 key heads, and with latents.

    \b
    Examples:
      python -m calc attention --seq 8192 --heads 32 --kv-heads 8 --d-head 128 --causal --gpu h100-sxm
      python -m calc attention --seq 1024 --heads 16 --d-head 64 --batch 64 --dtype fp16 --backward --sram 192KiB
      python -m calc attention --preset flashattention-table
    """
    _check_preset(preset)
    device = load_device(gpu) if gpu else None
    if preset == "flashattention-table":
        _published(fmt)
    elif preset == "kv-grouping":
        _groupings(fmt, asked, device)
    else:
        _compare(fmt, asked, device)


def _check_preset(preset: str | None) -> None:
    """Errors: Refused for an option that the preset would not heed."""
    if preset is None:
        return
    ctx = click.get_current_context()
    heeded = {"preset", "fmt", *({"batch", "keys", "dtype", "gpu"} if preset == "kv-grouping" else ())}
    for option in ctx.command.params:
        if option.name not in heeded and ctx.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE:
            raise Refused(option.opts[0], f"nothing beside --preset {preset}, which has its own", "a value")


def _compare(fmt: str, asked: dict[str, Any], device: Device | None) -> None:
    from calc.attention.bounds import crossovers

    shape = _shape(asked)
    capacity = _capacity(asked["sram"], device)
    blocks = _blocks(asked["blocks"]) if asked["blocks"] else best_blocks(shape, capacity)
    costs = {"standard": standard(shape), "flash": flash(shape, blocks)}
    records = [
        {"attention": name, **asdict(cost), **_derived(cost, shape, device), "blocks": list(blocks)}
        for name, cost in costs.items()
    ]
    measures: dict[str, Callable[[Cost], Any]] = {"bytes moved": lambda c: c.traffic, "memory": lambda c: c.peak}
    wins = crossovers(shape, blocks, list(measures.values()))
    records[1]["wins_from"] = {name: win.length for name, win in zip(measures, wins, strict=True)}
    emit(records, [_costs(records, shape, blocks), _wins(dict(zip(measures, wins, strict=True))), _bounds()], fmt)


def _shape(asked: dict[str, Any]) -> AttentionShape:
    names = ("seq", "keys", "heads", "kv_heads", "d_head", "batch", "dtype", "causal", "window")
    direction = "backward" if asked["backward"] else "forward"
    return AttentionShape(**{name: asked[name] for name in names}, direction=direction)


def _capacity(sram: str | None, device: Device | None) -> int:
    if sram is not None:
        return parse_bytes(sram, "--sram")
    if device is None:
        return parse_bytes("192KiB", "--sram")
    if device.sram is None:
        raise Refused("--sram", f"bytes, since none are known of {device.name}", None)
    return device.sram.value - _RESERVED


def _blocks(text: str) -> Blocks:
    rows, _, columns = text.partition("x")
    if not (rows.isdecimal() and columns.isdecimal() and int(rows) and int(columns) and len(text) < 20):
        raise Refused("--blocks", "rows and columns of a tile, such as 128x64", text)
    return Blocks(int(rows), int(columns))


def _derived(cost: Cost, shape: AttentionShape, device: Device | None) -> dict[str, Any]:
    found: dict[str, Any] = {"traffic": cost.traffic, "arithmetic_intensity": cost.arithmetic_intensity}
    if device is not None:
        compute, memory = cost.flops / device.peak(shape.dtype), cost.traffic / device.bandwidth.value
        found |= {
            "bound": "compute" if compute > memory else "memory",
            "seconds_at_least": max(compute, memory),
            "device": device.name,
        }
    return found


_ROWS: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
    ("flops", "FLOPs as executed", lambda value: si(value, "FLOP")),
    ("exponentials", "exponentials", lambda value: f"{value:,}"),
    ("read", "bytes read", lambda value: si(value, "B")),
    ("written", "bytes written", lambda value: si(value, "B")),
    ("traffic", "bytes moved", lambda value: si(value, "B")),
    ("arithmetic_intensity", "arithmetic intensity, FLOP/B", lambda value: f"{value:,.1f}"),
    ("bound", "bound", str),
    ("seconds_at_least", "time, at least, ms", lambda value: f"{value * 1e3:,.3f}"),
    ("sram", "on-chip memory of a tile", lambda value: binary(value) if value else "–"),
    ("kept", "kept for backward", binary),
    ("peak", "memory beside inputs and output", binary),
)


def _costs(records: list[dict[str, Any]], shape: AttentionShape, blocks: Blocks) -> Table:
    rows = []
    for key, label, shown in _ROWS:
        if key in records[0]:
            values = [record[key] for record in records]
            ratio = "" if key in ("bound", "sram") or not values[0] else f"{values[1] / values[0]:.3g}"
            rows.append((label, *map(shown, values), ratio))
    masks = ", causal" * shape.causal + f", window {shape.window}" * (shape.window is not None)
    title = (
        f"{shape.direction}{masks}: batch {shape.batch}, {shape.heads} heads ({shape.kv_heads} of keys) of "
        f"{shape.d_head}, {shape.seq:,} tokens, {shape.keys:,} keys, {shape.dtype}; "
        f"tiles of {blocks.rows} x {blocks.columns}"
    )
    note = "tiles: rows of queries (of all heads that share a key head) x keys"
    return Table(("quantity", "standard", "flash", "flash / standard"), rows, title, note)


def _wins(found: dict[str, Any]) -> Table:
    rows = []
    for name, win in found.items():
        from_length = "none" if win.length is None else f"{win.length:,} tokens on"
        rows.append((name, from_length, f"{win.standard:,.3g}", f"{win.flash:,.3g}"))
    note = "bytes for a pair of tokens of one head at 131,072 tokens; with these tiles and seq = keys"
    return Table(("flash needs less", "from", "standard", "flash"), rows, "", note)


def _bounds() -> Table:
    from calc.attention.bounds import BOUNDS, FLASH_CONSTANTS

    rows = [(bound.name, bound.written, bound.holds, bound.source) for bound in BOUNDS]
    low, high = FLASH_CONSTANTS
    note = f"n tokens, d a head's width, m elements of SRAM; flash counted over its order stays in {low:g} .. {high:g}"
    return Table(("elements moved, forward, one head", "order", "holds", "source"), rows, "", note)


def _published(fmt: str) -> None:
    from calc.attention.published import rows, setting

    shape, sram, gpu = setting()
    found = rows()
    shown = {"FLOP": lambda x: si(x, "FLOP"), "B": lambda x: f"{x / 1e9:.2f} GB", "s": lambda x: f"{x * 1e3:.1f} ms"}
    table = [
        (
            row.attention,
            row.quantity,
            "–" if row.printed is None else shown[row.unit](row.printed),
            shown[row.unit](row.counted),
            row.verdict or "–",
            row.why,
        )
        for row in found
    ]
    title = (
        f"GPT-2 medium, forward and backward: batch {shape.batch}, {shape.heads} heads of {shape.d_head}, "
        f"{shape.seq:,} tokens, {shape.dtype}, {gpu.name}, {binary(sram)} of SRAM"
    )
    note = (
        "Printed: FlashAttention (Dao et al. 2022), figure 2, as lecture notes 4 copy it. That its baseline adds a "
        "mask and drops out, as its authors' benchmark can, is read off that code and not printed beside the table."
    )
    columns = ("attention", "quantity", "printed", "counted", "verdict", "why")
    emit([asdict(row) for row in found], [Table(columns, table, title, note)], fmt)


def _groupings(fmt: str, asked: dict[str, Any], device: Device | None) -> None:
    from calc.attention.latent import groupings

    context = asked["keys"] or 8192
    shape = AttentionShape(batch=asked["batch"], heads=32, seq=1, keys=context, d_head=128, dtype=asked["dtype"])
    records, rows = [], []
    for each in groupings(shape, (32, 8, 1)):
        derived = _derived(each.cost, each.shape, device)
        record = {"grouping": each.name, "cached_bytes_per_token": each.cached, "flops": each.cost.flops, **derived}
        records.append(record)
        timed = (f"{record['seconds_at_least'] * 1e6:,.2f}", record["bound"]) if device else ()
        rows.append(
            (
                each.name,
                f"{each.cached:,}",
                si(each.cost.traffic, "B"),
                si(each.cost.flops, "FLOP"),
                f"{each.cost.arithmetic_intensity:,.1f}",
                *timed,
            )
        )
    columns = ("keys and values", "cached, B a token", "bytes moved", "FLOPs", "FLOP/B")
    columns += ("at least, µs", "bound") if device else ()
    title = f"one decode step of one layer: batch {shape.batch}, 32 heads of 128, {context:,} keys, {shape.dtype}"
    note = "MLA: latents of 512 and rotary keys of 64; heads of 128 + 64. Projections around attention are not counted."
    emit(records, [Table(columns, rows, title, note)], fmt)
