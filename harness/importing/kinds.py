"""The kinds of measured tables that can be imported, told apart by their columns: one function each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from calc.errors import Refused
from calc.time.device.limits import Limits
from calc.time.kernels.decoding import DecodeModel
from calc.time.kernels.flash import AttentionModel
from calc.time.kernels.gemm import GemmModel
from calc.time.kernels.learned import Learned
from harness.importing.reading import numbers

if TYPE_CHECKING:
    DataFrame = Any

FORMATS = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp32", "fp8": "fp8", "int8": "int8"}
"""Number formats as tables name them -> as Envelope does."""

COMMON = ("framework", "version", "kernel_source", "latency_ms")
HEADS = ("batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim", "step", "window_size")


class Kind(NamedTuple):
    """One kind of table.

    field: of the profile that the model goes to. dtype: column of the number format. sizes: columns that tell what was
    measured. shape: those rows as the model's columns. model: its class.
    """

    field: str
    dtype: str
    sizes: Sequence[str]
    shape: Callable[[DataFrame, str], dict[str, Any]]
    model: type[GemmModel] | type[AttentionModel] | type[DecodeModel]

    def prior(self, limits: Limits, kernel_source: str) -> Learned:
        """The model before it is fitted: what it says of limits holds already."""
        return self.model.prior(limits, kernel_source)


def _gemm(frame: DataFrame, where: str) -> dict[str, Any]:
    """[m, k] x [k, n], one product a launch."""
    import numpy as np

    shape = {name: numbers(frame, name, where, most=2.0**31) for name in ("m", "n", "k")}
    return shape | {"batch": np.ones(len(frame))}


def _heads(frame: DataFrame, where: str) -> dict[str, Any]:
    import numpy as np

    batch, heads, kv_heads, width = (
        numbers(frame, name, where, most=2.0**20)
        for name in ("batch_size", "num_heads", "num_key_value_heads", "head_dim")
    )
    window = numbers(frame, "window_size", where, least=0, most=2.0**31)
    shape = {"batch": batch, "heads": heads, "kv_heads": np.minimum(kv_heads, heads), "window": window}
    return shape | {"d_head": width, "d_value": width}


def _prefill(frame: DataFrame, where: str) -> dict[str, Any]:
    """`isl` new tokens of each sequence after `step` cached ones, causal."""
    import numpy as np

    seq, cached = numbers(frame, "isl", where, most=2.0**31), numbers(frame, "step", where, least=0, most=2.0**31)
    return _heads(frame, where) | {"seq": seq, "keys": seq + cached, "causal": np.ones(len(frame))}


def _decode(frame: DataFrame, where: str) -> dict[str, Any]:
    """One new token of each sequence after `step` cached ones."""
    import numpy as np

    tokens = numbers(frame, "isl", where) + numbers(frame, "step", where, least=0, most=2.0**31)
    return _heads(frame, where) | {"context": tokens, "latent": np.zeros(len(frame))}


KINDS = {
    "gemm": Kind("gemm", "gemm_dtype", ("m", "n", "k"), _gemm, GemmModel),
    "prefill attention": Kind("attention", "attn_dtype", HEADS, _prefill, AttentionModel),
    "decode attention": Kind("decode", "attn_dtype", HEADS, _decode, DecodeModel),
}
"""What a table holds -> how it is read. Both kinds of attention have the same columns: decode has one new token."""


def kind_of(frame: DataFrame, where: str) -> str:
    """The kind of table. Errors: Refused, naming the columns of the nearest kind that are not there."""
    missing = {
        name: [column for column in (*COMMON, kind.dtype, *kind.sizes) if column not in frame.columns]
        for name, kind in KINDS.items()
    }
    name = min(missing, key=lambda name: len(missing[name]))
    if missing[name]:
        wanted = f"columns of a table of gemm, attention or collectives; of {name}"
        raise Refused(where, wanted, f"none called {', '.join(missing[name])}")
    if name != "gemm":
        return "decode attention" if set(frame["isl"]) == {"1"} else "prefill attention"
    return name


def format_of(frame: DataFrame, column: str, where: str) -> str:
    """The one number format of a table. Errors: Refused for several, or for one that is not known."""
    found = sorted(set(frame[column]))
    if len(found) != 1 or found[0].lower() not in FORMATS:
        raise Refused(f"{where}: {column}", f"one of {', '.join(FORMATS)} in all rows", ", ".join(found)[:60])
    return FORMATS[found[0].lower()]
