"""Tables of dispatching tokens to the ranks of their experts and of bringing results back: DeepEP's, TensorRT-LLM's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calc.dtypes import dtype as number_format
from calc.errors import Refused
from calc.spec.hardware import Device
from calc.time.models.exchange import ExchangeModel
from calc.time.models.limits import Limits
from harness.importing.fitting import FEWEST, Imported, Rows, Wanted, imported_rows
from harness.importing.kinds import FORMATS, milliseconds
from harness.importing.reading import numbers, read_table

if TYPE_CHECKING:
    DataFrame = Any

NODE = {"GB200": 4}
"""GPUs of a node by how a device's title begins, where they are not 8: a tray of a GB200 NVL72 has 4."""
LOW_LATENCY = {"dispatch": "dispatch_avg_t_us", "combine": "combine_avg_t_us"}
THROUGHPUT = {"dispatch": "dispatch_transmit_us", "combine": "combine_transmit_us"}
DISPATCHED = {"low_latency": 1.0, "throughput": 2.0}
"""Bytes of an element as DeepEP sends it out: its low-latency kernels cast to fp8 (DeepEP's README); it comes back in
bf16."""


def holds_exchanges(frame: DataFrame) -> bool:
    """Whether a table is of dispatch and combine, by its columns."""
    columns = set(frame.columns)
    return {"num_token", "node_num"} <= columns or ({"moe_ep_size", "topk"} <= columns and "inter_size" not in columns)


def import_exchanges(path: Path, device: Device, wanted: Wanted, tell: Callable[[str], None]) -> list[Imported]:
    """A model of each direction and mode. Errors: Refused for tables that cannot be read, and for devices without links
    to others."""
    where, frame = str(path), read_table(path)
    found = []
    for rows in exchange_rows(frame, device, where):
        if len(rows.seconds) >= FEWEST:
            tell(f"fitting exchange.{rows.name} to rows of {path.name}, {len(rows.seconds):,} in all")
            found.append(imported_rows("exchange", rows, path, wanted))
    return found


def exchange_rows(frame: DataFrame, device: Device, where: str) -> Iterator[Rows]:
    """The rows of each model that a table gives. Errors: Refused for devices without links to others."""
    if device.link_one_way is None:
        raise Refused("--gpu", "a device whose links are in the catalogue", device.name)
    return _deepep(frame, device, where) if "num_token" in frame.columns else _alltoall(frame, device, where)


def _model(device: Device, itemsize: float, kernel: str) -> ExchangeModel:
    assert device.link_one_way is not None
    limits = Limits(peak=1.0, bandwidth=float(device.link_one_way), itemsize=itemsize)
    return ExchangeModel.prior(limits, kernel)


def _deepep(frame: DataFrame, device: Device, where: str) -> Iterator[Rows]:
    """Microseconds within one node."""
    import numpy as np

    mode = "throughput" if "dispatch_sms" in frame.columns else "low_latency"
    a_node = next((count for word, count in NODE.items() if word in device.title), 8)
    shape = {
        "tokens": numbers(frame, "num_token", where),
        "hidden": numbers(frame, "hidden_size", where),
        "top_k": numbers(frame, "num_topk", where),
        "experts": numbers(frame, "num_experts", where),
        "ranks": numbers(frame, "node_num", where) * a_node,
    }
    for direction, column in (THROUGHPUT if mode == "throughput" else LOW_LATENCY).items():
        seconds = numbers(frame, column, where, 1e-9, 1e9) * 1e-6
        sms = numbers(frame, f"{direction}_sms", where) if mode == "throughput" else np.full(len(frame), 24.0)
        model = _model(device, DISPATCHED[mode] if direction == "dispatch" else 2.0, f"DeepEP {mode}")
        yield Rows(f"{direction}.{mode}", frame, shape | {"sms": sms}, seconds, model, len(frame))


def _alltoall(frame: DataFrame, device: Device, where: str) -> Iterator[Rows]:
    """Milliseconds; by step and format, and by kernel, the usual one first."""
    import numpy as np

    frame = frame.assign(step=frame["op_name"].str.replace("alltoall_", ""))
    for (step, dtype), same in frame.groupby(["step", "moe_dtype"], sort=True):
        if dtype not in FORMATS:
            raise Refused(f"{where}: moe_dtype", f"one of {', '.join(FORMATS)}", dtype[:60])
        for i, kernel in enumerate(same["kernel_source"].value_counts().index):
            rows = same[same["kernel_source"] == kernel]
            names = {"tokens": "num_tokens", "hidden": "hidden_size", "top_k": "topk", "experts": "num_experts"}
            shape = {ours: numbers(rows, theirs, where) for ours, theirs in names.items()}
            shape |= {"ranks": numbers(rows, "moe_ep_size", where), "sms": np.full(len(rows), 24.0)}
            name = f"{step}.{FORMATS[dtype]}" + (f"@{kernel}" if i else "")
            model = _model(device, _sent(step, FORMATS[dtype]), kernel)
            yield Rows(name, rows, shape, milliseconds(rows, where) * 1e-3, model, len(rows))


def _sent(step: str, dtype: str) -> float:
    """Bytes of an element between ranks: results come back in bf16."""
    return (0.5625 if dtype == "nvfp4" else number_format(dtype).bits / 8) if step == "dispatch" else 2.0
