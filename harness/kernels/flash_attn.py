"""The flash-attn package: FlashAttention-2, and FlashAttention-3 where its own package is installed."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar

from calc.attention.shape import AttentionShape
from harness.kernels.base import Backend

if TYPE_CHECKING:
    from torch import Tensor


class FlashAttn(Backend):
    """flash_attn.flash_attn_func (Dao 2023, arXiv:2307.08691): causal masks are aligned at the bottom right."""

    name = "flash_attn"
    title = "flash-attn package, FlashAttention-2"
    package: ClassVar[str] = "flash_attn"
    devices = frozenset({"cuda"})
    dtypes = frozenset({"bf16", "fp16"})
    features = frozenset({"causal", "offset", "window", "softcap", "alibi", "empty", "groups", "backward"})

    def available(self, device: str = "cpu") -> str | None:
        if reason := super().available(device):
            return reason
        return None if find_spec(self.package) else f"the package {self.package} is not installed"

    def supports(self, shape: AttentionShape, device: str = "cpu") -> str | None:
        if reason := super().supports(shape, device):
            return reason
        return "needs d_head up to 256, a multiple of 8" if shape.d_head > 256 or shape.d_head % 8 else None

    def forward(self, q: Tensor, k: Tensor, v: Tensor, shape: AttentionShape) -> Tensor:
        from importlib import import_module

        from reference_models.blocks.positions import alibi_slopes

        options: dict[str, Any] = {"causal": shape.causal, "window_size": _window(shape)}
        if shape.softcap is not None:
            options["softcap"] = shape.softcap
        if shape.alibi:
            options["alibi_slopes"] = alibi_slopes(shape.heads, q.device).float()
        run = import_module(self.package).flash_attn_func
        # [batch, heads, seq, d] -> [batch, seq, heads, d]: strides are passed on, nothing is copied.
        out = run(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), **options)
        return (out[0] if isinstance(out, tuple) else out).transpose(1, 2)


class FlashAttn3(FlashAttn):
    """flash_attn_interface.flash_attn_func (Shah et al. 2024, arXiv:2407.08608), for Hopper."""

    name = "flash_attn_3"
    title = "flash-attn package, FlashAttention-3"
    package = "flash_attn_interface"
    features = FlashAttn.features - {"alibi"}


def _window(shape: AttentionShape) -> tuple[int, int]:
    """Keys to the left and to the right of a query's own that it sees; -1 for all of them."""
    if shape.window is None:
        return -1, -1
    return shape.window - 1, 0 if shape.causal else shape.window - 1
