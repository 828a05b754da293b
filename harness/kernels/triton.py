"""Our own kernels in Triton: FlashAttention forward, and decoding over split keys."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING

from calc.attention.shape import AttentionShape
from harness.kernels.base import Backend, on

if TYPE_CHECKING:
    from torch import Tensor

_MOST_ROWS = 64


class Triton(Backend):
    """Forward only. On a CPU Triton's interpreter runs it (TRITON_INTERPRET=1, set before the first call): slowly, and
    not in bf16, whose products the interpreter gets wrong."""

    name = "triton"
    title = "our FlashAttention forward in Triton"
    features = frozenset({"causal", "offset", "window", "lengths", "empty", "groups", "d_value"})

    def available(self, device: str = "cpu") -> str | None:
        if reason := super().available(device):
            return reason
        if not find_spec("triton"):
            return "triton is not installed: pip install triton"
        if on(device) == "cpu" and os.environ.get("TRITON_INTERPRET") != "1":
            return "on a CPU Triton runs in its interpreter only: set TRITON_INTERPRET=1"
        return None

    def supports(self, shape: AttentionShape, device: str = "cpu") -> str | None:
        if reason := super().supports(shape, device):
            return reason
        if shape.dtype == "bf16" and on(device) == "cpu":
            return "has no bf16 in Triton's interpreter, whose bf16 products are wrong"
        return "needs head widths up to 256" if max(shape.d_head, shape.d_value) > 256 else None

    def forward(self, q: Tensor, k: Tensor, v: Tensor, shape: AttentionShape) -> Tensor:
        import torch

        from harness.kernels.triton_prefill import prefill

        with torch.cuda.device_of(q):
            return prefill(_dense(q), _dense(k), _dense(v), shape)


class TritonDecode(Triton):
    """Few new tokens against a long cache: keys are split over programs and read once for a whole group of heads."""

    name = "triton_decode"
    title = "our split-KV decoding in Triton"

    def supports(self, shape: AttentionShape, device: str = "cpu") -> str | None:
        if shape.group * shape.seq > _MOST_ROWS:
            return f"holds at most {_MOST_ROWS} rows: new tokens times query heads of a group"
        return super().supports(shape, device)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, shape: AttentionShape, splits: int | None = None) -> Tensor:
        """splits: programs that share the keys of one head; None: as many as fill the device."""
        import torch

        from harness.kernels.triton_decode import decode

        with torch.cuda.device_of(q):
            return decode(_dense(q), _dense(k), _dense(v), shape, splits)


def _dense(tensor: Tensor) -> Tensor:
    """Kernels ask that the last axis is contiguous; the others may have any stride."""
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()
