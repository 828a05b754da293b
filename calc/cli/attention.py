"""`attention`: standard attention against FlashAttention, and what grouping of heads saves in decoding."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import click
from click.core import ParameterSource

from calc.attention import AttentionShape, Blocks, Cost, best_blocks, flash, on_chip, standard
from calc.attention.shape import ITEM_BITS
from calc.cli import completing, options
from calc.cli.attention_presets import groupings, published, roofs, timed, with_call
from calc.errors import Refused
from calc.output.tables import Table, emit
from calc.spec.hardware import Device
from calc.time import speed_of
from calc.time.attention_calls.backends import TIMED, fused_kernel, runs_backends
from calc.time.attention_calls.crossing import time_crossover
from calc.time.device.speed import Speed
from calc.units import binary, parse_bytes, si

GROUPED = {"batch", "keys", "heads", "kv_heads", "d_head", "d_value", "dtype", "gpu", "profile"}
"""What the preset of groupings heeds."""
_PRESETS = ("flashattention-table", "kv-grouping")


@click.command(short_help="Standard attention against FlashAttention: FLOPs, bytes, memory.")
@click.option("--seq", type=options.Length(), default=2048, show_default=True, help="New tokens.")
@click.option("--keys", type=options.Length(), help="Cached and new tokens. [default: --seq]")
@click.option("--heads", type=options.Tokens(), default=32, show_default=True, help="Query heads.")
@click.option("--kv-heads", type=options.Tokens(), help="Key and value heads. [default: --heads]")
@click.option("--d-head", type=options.Tokens(), default=128, show_default=True, help="Width of a head.")
@click.option("--d-value", type=options.Tokens(), help="Width of a value. [default: --d-head]")
@options.batch
@click.option("--dtype", type=click.Choice(list(ITEM_BITS)), default="bf16", show_default=True, help="Of the inputs.")
@click.option("--causal", is_flag=True, help="A query sees the keys up to its position.")
@click.option("--window", type=options.Tokens(), help="Of those, only the last N.")
@click.option("--backward", is_flag=True, help="Forward and backward.")
@click.option("--sram", metavar="BYTES", help="On-chip memory for one tile. [default: 192KiB, or what --gpu has]")
@click.option(
    "--gpu",
    metavar="NAME",
    shell_complete=completing.gpus,
    help="A device of `gpus`: its on-chip memory, bounds, and times.",
)
@click.option(
    "--profile",
    metavar="FILE",
    shell_complete=completing.files,
    help="What `python -m harness profile` measured: times.",
)
@click.option("--blocks", metavar="ROWSxCOLUMNS", help="Tiles. [default: the cheapest of those that fit]")
@click.option("--preset", type=click.Choice(_PRESETS), help="A case that is known, in place of sizes.")
@options.output
def attention(fmt: str, preset: str | None, gpu: str | None, profile: str | None, **given: Any) -> None:
    """FLOPs, bytes, memory, time of one call of attention: standard, with every score in memory, and flash, by tiles.

    Bytes are those between main memory and the chip, exactly as a tiled kernel with these tiles reads and writes them;
    sums and square tiles count as on-chip memory, where a GPU has registers for them. Flash skips tiles that masks
    hide, and computes the scores again backward. With --gpu or --profile times are predicted, of each kernel that is
    known there, with the interval that holds 90 of 100 measured ones and what they rest on.

    --preset flashattention-table: the table of GPT-2 medium that lecture notes print, each figure beside our count.
    --preset kv-grouping: one decode step by key heads (all, --kv-heads, 8, one), and with latents.

    \b
    Examples:
      python -m calc attention --seq 8192 --kv-heads 8 --causal --gpu h100-sxm
      python -m calc attention --seq 1024 --batch 64 --backward --sram 192KiB
      python -m calc attention --preset flashattention-table
    """
    _check_preset(preset)
    speed = _speed(gpu, profile)
    if preset == "flashattention-table":
        published(fmt)
    elif preset == "kv-grouping":
        groupings(fmt, given, speed)
    else:
        _compare(fmt, given, speed)


def _speed(gpu: str | None, profile: str | None) -> Speed | None:
    if gpu is not None and profile is not None:
        raise Refused("--gpu", "--gpu or --profile", "both")
    if gpu is not None:
        return speed_of(gpu)
    if profile is None:
        return None
    from calc.time.device.profile import profile_named

    return speed_of(profile_named(profile))


def _check_preset(preset: str | None) -> None:
    """Errors: Refused for an option that the preset would not heed."""
    if preset is None:
        return
    ctx = click.get_current_context()
    heeded = {"preset", "fmt", *(GROUPED if preset == "kv-grouping" else ())}
    for option in ctx.command.params:
        if option.name not in heeded and ctx.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE:
            raise Refused(option.opts[0], f"nothing beside --preset {preset}, which has its own", "a value")


def _compare(fmt: str, given: dict[str, Any], speed: Speed | None) -> None:
    from calc.attention.bounds import crossovers

    shape, device = _shape(given), None if speed is None else speed.device
    capacity = _capacity(given["sram"], device)
    blocks = _blocks(given["blocks"]) if given["blocks"] else best_blocks(shape, capacity)
    costs = {"standard": standard(shape), "flash": flash(shape, blocks)}
    records = [
        {"attention": name, **asdict(cost), **roofs(cost, shape, device), "blocks": list(blocks)}
        for name, cost in costs.items()
    ]
    measures: dict[str, Callable[[Cost], Any]] = {"bytes moved, B": lambda c: c.traffic, "memory, B": lambda c: c.peak}
    wins = dict(zip(measures, crossovers(shape, blocks, list(measures.values())), strict=True))
    tables = [_bounds()]
    if speed is not None and runs_backends(speed):
        back = shape.direction == "backward"
        times = _by_backend(speed, shape)
        for record, name in zip(records, RAN, strict=True):
            record |= timed(speed, name, shape, back)
        wins["time, s"] = time_crossover(speed, shape, ("forward", "backward") if back else ("forward",), backends=RAN)
        records[1]["backends"] = times
        tables.insert(0, _times(times, speed, shape))
    tables[-1] = with_call(tables[-1], records, shape, sram=capacity, device=speed.name if speed else None)
    records[1]["wins_from"] = {name.partition(",")[0]: win.length for name, win in wins.items()}
    emit(records, [_costs(records, shape, blocks), _wins(wins), *tables], fmt)


RAN = ("reference", "sdpa_flash")
"""The backends whose times are those of standard attention and of flash."""


def _by_backend(speed: Speed, shape: AttentionShape) -> list[dict[str, Any]]:
    """Every backend whose time is known there, the fastest first."""
    found = []
    for name in TIMED:
        with suppress(Refused):
            found.append(timed(speed, name, shape, shape.direction == "backward"))
    return sorted(found, key=lambda one: one["seconds"])


def _times(times: list[dict[str, Any]], speed: Speed, shape: AttentionShape) -> Table:
    flops = fused_kernel(shape, False).flops * (1 if shape.direction == "forward" else 3.5)
    rows = [
        (
            one["backend"],
            f"{one['seconds'] * 1e3:,.3f}",
            f"{one['low'] * 1e3:,.3f} … {one['high'] * 1e3:,.3f}",
            si(flops / one["seconds"], "FLOP/s"),
            one["rests"],
        )
        for one in times
    ]
    columns = ("backend", "predicted, ms", "between", "rate", "rests on")
    return Table(
        columns,
        rows,
        f"time on {speed.name}, run eagerly",
        f"rate: FLOPs of pairs that masks keep; by the {speed.source}",
    )


def _shape(given: dict[str, Any]) -> AttentionShape:
    names = ("seq", "keys", "heads", "kv_heads", "d_head", "d_value", "batch", "dtype", "causal", "window")
    direction = "backward" if given["backward"] else "forward"
    return AttentionShape(**{name: given[name] for name in names}, direction=direction)


def _capacity(sram: str | None, device: Device | None) -> int:
    if sram is not None:
        return parse_bytes(sram, "--sram")
    if device is None:
        return parse_bytes("192KiB", "--sram")
    return on_chip(device)


def _blocks(text: str) -> Blocks:
    rows, _, columns = text.partition("x")
    if not (rows.isdecimal() and columns.isdecimal() and int(rows) and int(columns) and len(text) < 20):
        raise Refused("--blocks", "rows and columns of a tile, such as 128x64", text)
    return Blocks(int(rows), int(columns))


_ROWS: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
    ("flops", "FLOPs as executed", lambda value: si(value, "FLOP")),
    ("exponentials", "exponentials", lambda value: f"{value:,}"),
    ("read", "bytes read", lambda value: si(value, "B")),
    ("written", "bytes written", lambda value: si(value, "B")),
    ("traffic", "bytes moved", lambda value: si(value, "B")),
    ("arithmetic_intensity", "arithmetic intensity, FLOP/B", lambda value: f"{value:,.1f}"),
    ("bound", "bound", str),
    ("seconds_at_least", "time at the peaks, ms", lambda value: f"{value * 1e3:,.3f}"),
    ("seconds", "time, predicted, ms", lambda value: f"{value * 1e3:,.3f}"),
    ("low", "… from", lambda value: f"{value * 1e3:,.3f}"),
    ("high", "… to", lambda value: f"{value * 1e3:,.3f}"),
    ("sram", "on-chip memory of a tile", lambda value: binary(value) if value else "–"),
    ("saved", "kept for backward", binary),
    ("peak", "memory beside inputs and output", binary),
)


def _costs(records: list[dict[str, Any]], shape: AttentionShape, blocks: Blocks) -> Table:
    rows = []
    for key, label, shown in _ROWS:
        if key in records[0]:
            values = [record[key] for record in records]
            ratio = "" if key in ("bound", "sram", "low", "high") or not values[0] else f"{values[1] / values[0]:.3g}"
            rows.append((label, *map(shown, values), ratio))
    masks = ", causal" * shape.causal + f", window {shape.window}" * (shape.window is not None)
    values = "" if shape.d_value == shape.d_head else f" (values of {shape.d_value})"
    title = (
        f"{shape.direction}{masks}: batch {shape.batch}, {shape.heads} heads ({shape.kv_heads} of keys) of "
        f"{shape.d_head}{values}, {shape.seq:,} tokens, {shape.keys:,} keys, {shape.dtype}; "
        f"tiles of {blocks.rows} x {blocks.columns}"
    )
    note = (
        "tiles: rows of queries (of all heads that share a key head) x keys; bytes as if none were found in an L2 cache"
    )
    if "seconds" in records[0]:
        note += f"; predicted: {' and '.join(RAN)} in PyTorch"
    return Table(("quantity", "standard", "flash", "flash / standard"), rows, title, note)


def _wins(found: dict[str, Any]) -> Table:
    rows = []
    for name, win in found.items():
        from_length = (
            f"none: {win.flash / win.standard:.2f} x as much" if win.length is None else f"{win.length:,} tokens on"
        )
        rows.append((name, from_length, f"{win.standard:,.3g}", f"{win.flash:,.3g}"))
    note = "standard, flash: for a pair of tokens of one head at 131,072 tokens; with these tiles and seq = keys"
    return Table(("flash needs less", "from", "standard", "flash"), rows, "", note)


def _bounds() -> Table:
    from calc.attention.bounds import BOUNDS, FLASH_CONSTANTS

    rows = [(bound.name, bound.written, bound.holds, bound.source) for bound in BOUNDS]
    low, high = FLASH_CONSTANTS
    note = f"n tokens, d a head's width, m elements of SRAM; flash counted over its order stays in {low:g} .. {high:g}"
    return Table(("elements moved, forward, one head", "order", "holds", "source"), rows, "", note)
