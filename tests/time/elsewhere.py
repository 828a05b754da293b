"""Devices of which nothing was fitted, as somebody else measured them, beside what their relatives say.

Times of an H20 and an H800 by alibaba/InferSim f2293dab (Apache-2.0), `bench_data`: DeepGEMM's products in fp8 by block
and FlashAttention-3 in bf16, batch 1 in prompts. No constant saw them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from calc.time.device.speed import Speed
from calc.time.device.speed_of import on_stack
from tests.time.published import rows

DEVICES = ("h20", "h800")
ENGINE = "sglang"
"""Whose tables hold both programs."""
Cells = dict[str, str]


class Kind(NamedTuple):
    """One kind of kernel. word: in the document; op, phase: in the file; table, format: of the models."""

    word: str
    op: str
    phase: str
    table: str
    dtype: str


KINDS = (
    Kind("products, fp8 by block", "gemm", "", "gemm", "fp8_block"),
    Kind("attention of a prompt, bf16", "mha", "prefill", "attention", "bf16"),
    Kind("attention of a token, bf16", "mha", "decode", "decode", "bf16"),
)


def table_elsewhere() -> str:
    """Rows, mean error, median of measured over predicted, and how often the interval held, of each device and kind."""
    lines = [
        "| device | kind | rows | mean error | measured / predicted | in the 90 % interval |",
        "|---" * 6 + "|",
    ]
    measured = [row for row in rows("kernels", "infersim_kernel_mfu.csv") if _told(row)]
    for name in DEVICES:
        speed = on_stack(name, ENGINE)
        for kind in KINDS:
            own = [row for row in measured if (row["gpu"], row["op"], row["phase"]) == (name, kind.op, kind.phase)]
            if own:
                lines.append(f"| {speed.name} | {kind.word} | {len(own)} | {_judged(speed, kind, own)} |")
    return "\n".join(lines)


def _told(row: Cells) -> bool:
    """Whether a row has a time, in formats that are compared, and its sizes."""
    sizes = {"gemm": ("m", "n", "k"), "prefill": ("seq_len",), "decode": ("batch_size", "kv_len")}
    needed = sizes.get(row["phase"] or row["op"], ())
    plain = row["op"] == "gemm" or (row["dtype"] in ("bf16", "") and row["kv_dtype"] in ("bf16", ""))
    return bool(needed) and plain and all(row[column] for column in (*needed, "latency_us"))


def _judged(speed: Speed, kind: Kind, own: Sequence[Cells]) -> str:
    import numpy as np

    model = getattr(speed, kind.table)[kind.dtype]
    ratio = np.array([float(row["latency_us"]) for row in own]) * 1e-6 / model.seconds(**dict(_sizes(kind, own)))
    low, high = (end**speed.wider for end in model.interval(0.9))
    inside = ((ratio >= low) & (ratio <= high)).mean()
    return f"{100 * np.abs(1 / ratio - 1).mean():.0f} % | {np.median(ratio):.2f} | {100 * inside:.0f} %"


def _sizes(kind: Kind, own: Sequence[Cells]) -> Iterator[tuple[str, Any]]:
    """Arguments of `seconds`; attention's file is called HEADS-KEYHEADS-WIDTH."""
    import numpy as np

    if kind.table == "gemm":
        yield from ((size, np.array([float(row[size]) for row in own])) for size in ("m", "n", "k"))
        return
    heads = np.array([[float(part) for part in row["shape_file"].split("-")] for row in own])
    yield from zip(("heads", "kv_heads", "d_head"), heads.T, strict=True)
    if kind.table == "attention":
        yield from (("batch", np.ones(len(own))), ("seq", np.array([float(row["seq_len"]) for row in own])))
    else:
        yield from (
            (ours, np.array([float(row[theirs]) for row in own]))
            for ours, theirs in (("batch", "batch_size"), ("context", "kv_len"))
        )
