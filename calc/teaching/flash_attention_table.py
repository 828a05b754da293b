"""The FlashAttention table that lecture notes print, beside the count of the same setting, each difference named."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from calc.attention.cost import Cost
from calc.attention.flash import flash, paper_blocks
from calc.attention.shape import AttentionShape
from calc.attention.standard import standard
from calc.attention.tiles import Blocks
from calc.reading.files import parse_toml, read_text
from calc.spec.catalogue import HARDWARE, load_device
from calc.spec.hardware import Device
from calc.units import parse_bytes

TABLE = HARDWARE.parent / "published" / "flash_attention.toml"


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. quantity, unit; printed: None where nothing is printed; counted: here; verdict and why."""

    quantity: str
    attention: str
    unit: str
    printed: float | None
    counted: float
    verdict: str
    why: str


@cache
def table() -> dict[str, Any]:
    """The data file: sources, setting, printed figures."""
    return parse_toml(read_text(TABLE), TABLE.name)


def setting() -> tuple[AttentionShape, int, Device]:
    """(shape, bytes of SRAM, GPU) of the printed table."""
    found = table()["setting"]
    names = ("batch", "heads", "seq", "d_head", "dtype", "direction")
    shape = AttentionShape(**{name: found[name] for name in names})
    return shape, parse_bytes(found["sram"], "sram"), load_device(found["gpu"])


def rows() -> list[Row]:
    """Every printed figure beside our count, and the steps by which the counts come to it."""
    shape, sram, gpu = setting()
    printed = table()["printed"]
    blocks = paper_blocks(shape, sram)
    costs = {"standard": standard(shape, masked=True, dropout=True), "flash": flash(shape, blocks, "keys")}
    found = _flops(costs, printed)
    found += _standard_traffic(shape, printed["standard"]["traffic"])
    found += _flash_traffic(shape, costs["flash"], blocks, printed["flash"]["traffic"])
    for name, cost in costs.items():
        found.append(_least_time(name, cost, gpu, printed[name]["seconds"], shape.dtype))
    for name, backend in (("standard", "reference"), ("flash", "sdpa_flash")):
        found.append(_predicted_time(name, backend, shape, gpu, printed[name]["seconds"]))
    return found


def _flops(costs: dict[str, Cost], printed: dict[str, dict[str, float]]) -> list[Row]:
    products = {
        "standard": "6 products of 2 N^2 d FLOP for each of 64 x 16 heads",
        "flash": "7 products: backward computes the scores once more",
    }
    found = []
    for name, cost in costs.items():
        figure = printed[name]
        ratio, rate = cost.flops / figure["flops"], figure["flops"] / figure["seconds"] / 1e12
        why = f"{products[name]}: {ratio:.1f} times what is printed, which in the printed time is {rate:.1f} TFLOP/s"
        found.append(Row("FLOPs", name, "FLOP", figure["flops"], cost.flops, "unreproduced", why))
    return found


def _standard_traffic(shape: AttentionShape, printed: float) -> list[Row]:
    plain, masked = standard(shape).traffic, standard(shape, masked=True).traffic
    whole = standard(shape, masked=True, dropout=True).traffic
    square = shape.item * shape.batch * shape.heads * shape.seq * shape.keys
    small = plain - 11 * square
    gigabytes = f"{square / 1e9:.2f} GB"
    why = (
        f"11 passes over N x N of {gigabytes} each, and 12 tensors of N x d, {small / 1e9:.2f} GB",
        "2 passes more",
        "forward 2 passes and a mask of 1 byte a score, backward the same: 5 passes more, 18 in all",
    )
    return [
        Row("HBM, algorithms 0 and 3", "standard", "B", None, plain, "", why[0]),
        Row("HBM, and a mask that is added", "standard", "B", None, masked, "", why[1]),
        Row("HBM, and dropout", "standard", "B", printed, whole, _verdict(whole, printed), why[2]),
    ]


def _flash_traffic(shape: AttentionShape, cost: Cost, blocks: Blocks, printed: float) -> list[Row]:
    other = flash(shape, Blocks(blocks.rows, 256), "keys").traffic
    zeros = cost.traffic + shape.item * shape.batch * shape.kv_heads * shape.keys * (shape.d_head + shape.d_value)
    why = (
        f"tiles of {blocks.rows} x {blocks.columns} = min(M / 4d, d) x M / 4d with M of 192 KiB: output and dq come "
        "and go 3 times",
        "algorithm 4 fills them first; its tiles then stay on the chip, so the count above leaves that out",
        "the table does not print its tiles; this many divide the sequence, and output and dq come and go 4 times",
    )
    return [
        Row("HBM, algorithms 1 and 4", "flash", "B", printed, cost.traffic, _verdict(cost.traffic, printed), why[0]),
        Row("HBM, zeros of dk, dv written", "flash", "B", None, zeros, "", why[1]),
        Row("HBM, tiles of 256 columns", "flash", "B", None, other, "", why[2]),
    ]


def _least_time(name: str, cost: Cost, gpu: Device, printed: float, dtype: str) -> Row:
    compute, memory = cost.flops / gpu.peak(dtype), cost.traffic / gpu.bandwidth.value
    bound, least = ("compute", compute) if compute > memory else ("memory", memory)
    why = (
        f"at the peaks of {gpu.name}: products {compute * 1e3:.1f} ms, bytes {memory * 1e3:.1f} ms; the printed time "
        f"is {least / printed:.0%} of the {bound} roof"
    )
    return Row("time, at least", name, "s", printed, least, "consistent" if least <= printed else "impossible", why)


def _predicted_time(name: str, backend: str, shape: AttentionShape, gpu: Device, printed: float) -> Row:
    from calc.time.attention_calls.backends import attention_seconds

    found = attention_seconds(gpu, backend, shape, ("forward", "backward"))
    why = (
        f"`{backend}` of PyTorch, no mask and no dropout: {found.low * 1e3:.1f} … {found.high * 1e3:.1f} ms by "
        f"{'the datasheet' if found.basis.startswith('products') else found.basis} and the efficiencies of priors.toml"
    )
    verdict = "within" if found.low <= printed <= found.high else "differs"
    return Row("predicted time", name, "s", printed, found.seconds, verdict, why)


def _verdict(counted: float, printed: float) -> str:
    """As in `calc.teaching.claim`: confirmed within 1 %."""
    return "confirmed" if abs(counted / printed - 1) <= 0.01 else "differs"
