"""What every attention backend says of itself and does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from calc.attention.shape import AttentionShape
from calc.errors import Refused

if TYPE_CHECKING:
    from torch import Tensor

Function = Literal["softmax", "linear", "latent"]
WORDS = {
    "causal": "causal mask",
    "offset": "causal mask of queries that continue a cache",
    "window": "sliding window",
    "softcap": "soft-cap",
    "alibi": "ALiBi",
    "lengths": "padding",
    "empty": "queries that see no key",
    "groups": "key heads that several query heads share",
    "d_value": "values of another width than keys",
    "backward": "backward pass",
}
"""What a shape may need -> how a reason names it."""
EVERYTHING = frozenset(WORDS)


def needs(shape: AttentionShape) -> frozenset[str]:
    """Which of WORDS the shape needs."""
    features = {
        "causal": shape.causal,
        "offset": shape.causal and shape.offset != 0 and shape.seq != 1,
        "window": shape.window is not None,
        "softcap": shape.softcap is not None,
        "alibi": shape.alibi,
        "lengths": shape.lengths is not None,
        "empty": has_empty_rows(shape),
        "groups": shape.group != 1,
        "d_value": shape.d_value != shape.d_head,
        "backward": shape.direction == "backward",
    }
    return frozenset(name for name, needed in features.items() if needed)


def has_empty_rows(shape: AttentionShape) -> bool:
    """Whether some query sees no key at all: first, before every key; last, with its window behind them."""
    shortest = shape.keys if shape.lengths is None else min(shape.lengths, default=0)
    before = (shape.causal or shape.window is not None) and shape.offset + 1 <= 0
    if shape.window is not None and not shape.causal:
        before = shape.offset + shape.window <= 0
    return shortest == 0 or before or (shape.window is not None and shape.keys - shape.window >= shortest)


def device_kind(device: str) -> str:
    """The kind of a device: `cuda` of `cuda:0`."""
    return device.partition(":")[0]


class Backend:
    """One way to compute attention.

    name: in the registry. title: whose kernel it is. function: what it computes; backends of one function compare.
    features: of WORDS, what it has. dtypes: formats of its inputs. devices: kinds of devices that it runs on.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    function: ClassVar[Function] = "softmax"
    features: ClassVar[frozenset[str]] = EVERYTHING
    dtypes: ClassVar[frozenset[str]] = frozenset({"fp32", "bf16", "fp16"})
    devices: ClassVar[frozenset[str]] = frozenset({"cpu", "cuda"})

    def available(self, device: str = "cpu") -> str | None:
        """Why it cannot run on `device` ("cpu", "cuda", "cuda:1") at all, or None where it can."""
        kind = device_kind(device)
        if kind not in self.devices:
            return f"runs on {' and '.join(sorted(self.devices))} only"
        if missing := _no_torch():
            return missing
        return _no_cuda() if kind == "cuda" else None

    def supports(self, shape: AttentionShape, device: str = "cpu") -> str | None:
        """Why it cannot compute `shape` there, or None where it can; torch is not loaded to tell."""
        if shape.kv_rank is not None:
            return "has no latent attention"
        if shape.dtype not in self.dtypes:
            return f"has no {shape.dtype}"
        missing = [words for name, words in WORDS.items() if name in needs(shape) - self.features]
        return f"has no {missing[0]}" if missing else None

    def check(self, shape: AttentionShape, device: str) -> None:
        """Errors: Refused where it cannot run, with the reason."""
        reason = self.available(device) or self.supports(shape, device)
        if reason is not None:
            raise Refused(self.name, f"a backend for this shape on {device}", reason)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, shape: AttentionShape) -> Tensor:
        """The output [batch, heads, seq, d_value], in the inputs' format; autograd passes through where it supports
        backward. q [batch, heads, seq, d_head], k [batch, kv_heads, keys, d_head], v [batch, kv_heads, keys, d_value].
        """
        raise NotImplementedError

    def laid(self, k: Tensor, v: Tensor, shape: AttentionShape) -> tuple[Any, Any]:
        """Keys and values as this kernel's cache holds them, which is no part of its time; `forward` is given these."""
        return k, v

    def inputs(self, shape: AttentionShape, device: str = "cpu", seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
        """Random q, k and v of standard normal values, which require gradients where the shape goes backward."""
        from harness.kernels.inputs import random_inputs

        return random_inputs(shape, device, seed)


def _no_torch() -> str | None:
    from importlib.util import find_spec

    return None if find_spec("torch") else "torch is not installed: pip install -e '.[harness]' in a clone"


def _no_cuda() -> str | None:
    import torch

    return None if torch.cuda.is_available() else "no CUDA device"
