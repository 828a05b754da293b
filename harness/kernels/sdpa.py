"""PyTorch's scaled_dot_product_attention, one backend a kernel that it may choose."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from calc.attention.shape import AttentionShape
from harness.kernels.base import Backend, device_kind, has_empty_rows

if TYPE_CHECKING:
    import torch
    from torch import Tensor

_MASKS = frozenset({"causal", "offset", "window", "lengths", "empty", "groups", "d_value", "backward"})


class Sdpa(Backend):
    """torch.nn.functional.scaled_dot_product_attention, held to one kernel by torch.nn.attention.sdpa_kernel.

    A causal mask of a square is passed as such; every other mask as a tensor of booleans, where the kernel takes one.
    Errors: NotImplementedError, of forward, where PyTorch refuses the kernel.
    """

    kernel: ClassVar[str]
    """Its name in torch.nn.attention.SDPBackend."""

    features = _MASKS

    def forward(self, q: Tensor, k: Tensor, v: Tensor, shape: AttentionShape) -> Tensor:
        from torch.nn import functional
        from torch.nn.attention import SDPBackend, sdpa_kernel

        mask, causal = self.mask(shape, q.device)
        groups = {"enable_gqa": True} if shape.group != 1 else {}
        try:
            with sdpa_kernel(getattr(SDPBackend, self.kernel)):
                return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal, **groups)
        except RuntimeError as error:
            # Which widths of heads a kernel takes depends on the GPU and on the versions of PyTorch and cuDNN.
            if not str(error).startswith(("No available kernel", "No viable backend")):
                raise
            raise NotImplementedError(f"{self.name}: PyTorch has no such kernel for this shape here") from error

    def mask(self, shape: AttentionShape, device: torch.device) -> tuple[Tensor | None, bool]:
        """(a mask, whether is_causal says it): is_causal is aligned at the top left, ours at the bottom right.

        One query that stands last sees every key, so that a decode step needs no mask.
        """
        from harness.kernels.inputs import visible

        plain = shape.window is None and shape.lengths is None
        if plain and (shape.offset == 0 or shape.seq == 1 <= shape.keys):
            return None, shape.causal and shape.seq != 1
        return visible(shape, device), False


class SdpaMath(Sdpa):
    """Matrix products and a softmax in memory; expands key heads and upcasts half formats."""

    name = "sdpa_math"
    title = "PyTorch SDPA, math"
    kernel = "MATH"
    dtypes = Sdpa.dtypes | {"fp64"}


class SdpaEfficient(Sdpa):
    """The memory-efficient kernel of xFormers. It takes no groups of heads, and masks of booleans as a bias."""

    name = "sdpa_efficient"
    title = "PyTorch SDPA, memory-efficient (xFormers)"
    kernel = "EFFICIENT_ATTENTION"
    devices = frozenset({"cuda"})
    features = _MASKS - {"groups", "empty"}


class SdpaFlash(Sdpa):
    """FlashAttention-2 in PyTorch on CUDA, and its counterpart for CPUs, which takes masks and fp32 too.

    On CUDA its causal mask is aligned at the bottom right, as torch.nn.attention.bias.causal_lower_right passes it on.
    """

    name = "sdpa_flash"
    title = "PyTorch SDPA, FlashAttention"
    kernel = "FLASH_ATTENTION"
    dtypes = Sdpa.dtypes | {"fp64"}
    features = _MASKS - {"d_value"}

    def supports(self, shape: AttentionShape, device: str = "cpu") -> str | None:
        if reason := super().supports(shape, device):
            return reason
        if device_kind(device) == "cpu":
            return None
        return _plain_cuda(shape) or ("needs d_head up to 256" if shape.d_head > 256 else None)

    def mask(self, shape: AttentionShape, device: torch.device) -> tuple[Tensor | None, bool]:
        """On CUDA it has a causal mask at the bottom right too, and no other mask that it could be given."""
        if device.type == "cuda" and continues(shape):
            from torch.nn.attention.bias import causal_lower_right

            return causal_lower_right(shape.seq, shape.keys), False
        return super().mask(shape, device)


class SdpaCudnn(Sdpa):
    """cuDNN's fused attention, on Hopper and later GPUs."""

    name = "sdpa_cudnn"
    title = "PyTorch SDPA, cuDNN"
    kernel = "CUDNN_ATTENTION"
    devices = frozenset({"cuda"})
    features = _MASKS - {"empty"}

    def supports(self, shape: AttentionShape, device: str = "cpu") -> str | None:
        if reason := super().supports(shape, device):
            return reason
        if shape.d_head % 8 or shape.d_value % 8 or max(shape.d_head, shape.d_value) > 256:
            return "needs head widths that are multiples of 8, up to 256"
        if continues(shape):
            return "has no causal mask of queries that continue a cache"
        return _plain_cuda(shape)


def continues(shape: AttentionShape) -> bool:
    """Whether several causal queries continue a cache, so that their mask is no lower triangle from the top left."""
    return shape.causal and shape.offset != 0 and shape.seq != 1


def _plain_cuda(shape: AttentionShape) -> str | None:
    """Why a fused kernel on CUDA that takes no mask tensors cannot compute `shape`."""
    if shape.dtype in ("fp32", "fp64"):
        return f"has no {shape.dtype} on CUDA"
    if shape.window is not None or shape.lengths is not None:
        return "takes no mask of its own on CUDA"
    return "has no queries that see no key" if has_empty_rows(shape) else None
