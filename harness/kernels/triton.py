"""Our own kernels in Triton: FlashAttention forward and backward, and decoding over split keys."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from calc.attention.shape import AttentionShape
from harness.kernels.base import Backend, device_kind

if TYPE_CHECKING:
    from torch import Tensor

PAGE = 16
"""Tokens of a page, as engines have them."""
_MOST_ROWS = 64


class Triton(Backend):
    """On a CPU Triton's interpreter runs it (TRITON_INTERPRET=1, set before the first call): slowly, and
    not in bf16, whose products the interpreter gets wrong."""

    name = "triton"
    title = "our FlashAttention in Triton"
    features = frozenset({"causal", "offset", "window", "lengths", "empty", "groups", "d_value", "backward"})

    def available(self, device: str = "cpu") -> str | None:
        if reason := super().available(device):
            return reason
        if not find_spec("triton"):
            return "triton is not installed: pip install triton"
        if device_kind(device) == "cpu" and os.environ.get("TRITON_INTERPRET") != "1":
            return "on a CPU Triton runs in its interpreter only: set TRITON_INTERPRET=1"
        return None

    def supports(self, shape: AttentionShape, device: str = "cpu") -> str | None:
        if reason := super().supports(shape, device):
            return reason
        if shape.dtype == "bf16" and device_kind(device) == "cpu":
            return "has no bf16 in Triton's interpreter, whose bf16 products are wrong"
        return "needs head widths up to 256" if max(shape.d_head, shape.d_value) > 256 else None

    def forward(self, q: Tensor, k: Tensor, v: Tensor, shape: AttentionShape) -> Tensor:
        import torch

        from harness.kernels.triton_prefill import prefill

        q, k, v = _dense(q), _dense(k), _dense(v)
        with torch.cuda.device_of(q):
            if torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v)):
                from harness.kernels.triton_backward import Flash

                return Flash.apply(q, k, v, shape)
            return prefill(q, k, v, shape)


class TritonDecode(Triton):
    """Few new tokens against a long cache: keys are split over programs and read once for a whole group of heads."""

    name = "triton_decode"
    title = "our split-KV decoding in Triton"
    features = Triton.features - {"backward"}

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


class TritonPaged(TritonDecode):
    """The same where keys and values lie in pages of 16 tokens, in any order, as engines keep them."""

    name = "triton_paged"
    title = "our decoding over a paged cache in Triton"

    def laid(self, k: Tensor, v: Tensor, shape: AttentionShape) -> tuple[Any, Any]:
        import torch

        from harness.kernels.triton_decode import Pages

        each = -(-shape.keys // PAGE)
        places = torch.randperm(shape.batch * each, generator=torch.Generator().manual_seed(0)).to(k.device)

        def pool(x: Tensor) -> Tensor:
            filled = torch.nn.functional.pad(x, (0, 0, 0, each * PAGE - shape.keys)).transpose(1, 2)
            made = filled.new_empty(shape.batch * each, PAGE, shape.kv_heads, x.shape[-1])
            made[places] = filled.reshape(made.shape)
            return made

        return Pages(pool(k), pool(v), places.reshape(shape.batch, each).to(torch.int32)), None

    def forward(self, q: Tensor, k: Any, v: Any, shape: AttentionShape, splits: int | None = None) -> Tensor:
        import torch

        from harness.kernels.triton_decode import decode

        with torch.cuda.device_of(q):
            return decode(_dense(q), q, q, shape, splits, k)


def _dense(tensor: Tensor) -> Tensor:
    """Kernels ask that the last axis is contiguous; the others may have any stride."""
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()
