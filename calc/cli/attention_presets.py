"""`attention --preset`: the table that lecture notes print, and what grouping of heads saves in decoding."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from calc.attention import AttentionShape, Cost
from calc.output.tables import Table, emit
from calc.spec.hardware import Device
from calc.time.attention_calls.attention_sweep import decoder
from calc.time.attention_calls.backends import attention_seconds, runs_backends
from calc.time.device.speed import Speed
from calc.units import binary, si


def published(fmt: str) -> None:
    """The table of GPT-2 medium: each printed figure beside our count and our prediction."""
    from calc.teaching.flash_attention_table import rows, setting

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
    records = [asdict(row) for row in found]
    emit(records, [with_call(Table(columns, table, title, note), records, shape, sram=sram, device=gpu.name)], fmt)


def groupings(fmt: str, given: dict[str, Any], speed: Speed | None) -> None:
    """One decode step by how heads share keys, and with latents: 32 heads of 128 unless told."""
    from calc.attention.latent import groupings as counted
    from calc.attention.latent import sharings

    context = given["keys"] or 8192
    device = None if speed is None else speed.device
    speed = speed if speed is not None and runs_backends(speed) else None
    own = {name: given[name] for name in ("batch", "heads", "d_head", "d_value", "dtype")}
    shape = AttentionShape(**own, seq=1, keys=context)
    records, rows = [], []
    for each in counted(shape, sharings(shape.heads, given["kv_heads"])):
        derived = roofs(each.cost, each.shape, device)
        record = {"grouping": each.name, "cached_bytes_per_token": each.cached, "flops": each.cost.flops, **derived}
        if speed is not None:
            record |= timed(speed, decoder(each.name), each.shape, False)
        records.append(record)
        rows.append(
            (
                each.name,
                f"{each.cached:,}",
                si(each.cost.traffic, "B"),
                si(each.cost.flops, "FLOP"),
                f"{each.cost.arithmetic_intensity:,.1f}",
                *_times(record),
            )
        )
    columns = ("keys and values", "cached, B a token", "bytes moved", "FLOPs", "FLOP/B")
    columns += ("at least, µs", "bound") * ("bound" in records[0])
    columns += ("predicted, µs", "between") * (speed is not None)
    title = f"one decode step of one layer: batch {shape.batch}, {shape.heads} heads of {shape.d_head}, "
    title += f"{context:,} keys, {shape.dtype}"
    note = f"MLA: latents of 512 and rotary keys of 64; heads of {shape.d_head} + 64. "
    note += "Projections around attention are not counted."
    if speed is not None:
        note += f"\nPredicted: sdpa_flash, and for MLA products and passes of PyTorch; by the {speed.source}"
    where = speed.name if speed is not None else device.name if device is not None else None
    emit(records, [with_call(Table(columns, rows, title, note), records, shape, device=where)], fmt)


def with_call(table: Table, records: list[dict[str, Any]], shape: AttentionShape, **given: Any) -> Table:
    """A table whose last line is the call that was counted, which each record has as its `run`; given: what else."""
    sizes = ("batch", "heads", "kv_heads", "seq", "keys", "d_head", "d_value", "window", "dtype", "causal", "direction")
    run = {name: getattr(shape, name) for name in sizes} | given
    for record in records:
        record["run"] = run
    words = (f"{name} {value}" for name, value in run.items() if value is not None and not isinstance(value, bool))
    line = f"run: {', '.join(words)}{', causal' * shape.causal}"
    return table._replace(note=f"{table.note}\n{line}" if table.note else line)


def _times(record: dict[str, Any]) -> tuple[str, ...]:
    found: tuple[str, ...] = ()
    if "bound" in record:
        found += (f"{record['seconds_at_least'] * 1e6:,.2f}", record["bound"])
    if "seconds" in record:
        found += (f"{record['seconds'] * 1e6:,.1f}", f"{record['low'] * 1e6:,.1f} … {record['high'] * 1e6:,.1f}")
    return found


def roofs(cost: Cost, shape: AttentionShape, device: Device | None) -> dict[str, Any]:
    """What a cost means on a device with a datasheet: bound, and seconds at least."""
    found: dict[str, Any] = {"traffic": cost.traffic, "arithmetic_intensity": cost.arithmetic_intensity}
    if device is not None:
        compute, memory = cost.flops / device.peak(shape.dtype), cost.traffic / device.bandwidth.value
        found |= {
            "bound": "compute" if compute > memory else "memory",
            "seconds_at_least": max(compute, memory),
            "device": device.name,
        }
    return found


def timed(speed: Speed, backend: str, shape: AttentionShape, back: bool) -> dict[str, Any]:
    """Predicted seconds of a backend, and what they rest on. Errors: as `attention_seconds`."""
    found = attention_seconds(speed, backend, shape, ("forward", "backward") if back else ("forward",))
    names = ("backend", "seconds", "low", "high", "level", "source")
    return {name: getattr(found, name) for name in names} | {"rests": found.basis}
