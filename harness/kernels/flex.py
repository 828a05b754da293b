"""FlexAttention: masks and biases as functions, compiled into one kernel."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from calc.attention.shape import AttentionShape
from harness.kernels.base import Backend, device_kind

if TYPE_CHECKING:
    import torch
    from torch import Tensor


_BLOCK = 128
"""Queries of a block of the mask; with fewer, PyTorch's kernel for decoding runs."""


class Flex(Backend):
    """torch.nn.attention.flex_attention, compiled on CUDA; on a CPU it runs as PyTorch writes it out, unfused.

    Its block mask lets it skip what causal masks, windows and padding hide.
    """

    name = "flex"
    title = "PyTorch FlexAttention"

    def supports(self, shape: AttentionShape, device: str = "cpu") -> str | None:
        if shape.direction == "backward" and device_kind(device) == "cpu":
            return "has no backward pass on a CPU"
        return super().supports(shape, device)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, shape: AttentionShape) -> Tensor:
        from torch.nn.attention.flex_attention import flex_attention

        run: Any = _compiled(shape) if q.is_cuda else flex_attention
        mask, score = _block_mask(shape, q.device), _score_mod(shape, q.device)
        options = {"FORCE_USE_FLEX_ATTENTION": True} if q.is_cuda and _too_many_rows(shape) else None
        more = {"enable_gqa": shape.group != 1, "kernel_options": options}
        return _quietly(run, q, k, v, score_mod=score, block_mask=mask, **more)


def _too_many_rows(shape: AttentionShape) -> bool:
    """Whether PyTorch would choose its kernel for decoding, which takes all rows of a key head at once, although those
    are more than a block of the mask has; it then finds no way to run it (PyTorch 2.13,
    _inductor/kernel/flex/flex_decoding.py)."""
    return shape.seq < _BLOCK < shape.group * shape.seq


def _quietly(run: Any, *args: Any, **options: Any) -> Tensor:
    """Without PyTorch's warning that it is not compiled, which `Flex` says of the CPU anyway."""
    import warnings

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*flex_attention called without torch.compile.*")
        return run(*args, **options)


@lru_cache(maxsize=1)
def _compiled(shape: AttentionShape) -> Any:
    """Anew for each shape: after several recompilations PyTorch would give up and run it unfused, in silence."""
    import torch
    from torch.nn.attention.flex_attention import flex_attention

    torch.compiler.reset()
    return torch.compile(flex_attention, dynamic=False)


@lru_cache(maxsize=8)
def _block_mask(shape: AttentionShape, device: torch.device) -> Any:
    """Which blocks any query sees; it is made once for a shape, as a training loop would."""
    import torch
    from torch.nn.attention.flex_attention import create_block_mask

    if not shape.hides:
        return None
    causal, window, offset = shape.causal, shape.window, shape.offset
    lengths = None if shape.lengths is None else torch.tensor(shape.lengths, device=device)

    def sees(b: Tensor, h: Tensor, query: Tensor, key: Tensor) -> Tensor:
        behind = query + offset - key
        seen = key >= 0
        if causal:
            seen = seen & (behind >= 0)
        if window is not None:
            seen = seen & ((behind if causal else behind.abs()) < window)
        return seen if lengths is None else seen & (key < lengths[b])

    batch = None if lengths is None else shape.batch
    return create_block_mask(sees, batch, None, shape.seq, shape.keys, device=str(device))


def _score_mod(shape: AttentionShape, device: torch.device) -> Any:
    """Soft-cap and ALiBi, applied to scaled scores; None where there is neither."""
    import torch

    from reference_models.blocks.positions import alibi_slopes

    if shape.softcap is None and not shape.alibi:
        return None
    cap, offset = shape.softcap, shape.offset
    slopes = alibi_slopes(shape.heads, device) if shape.alibi else None

    def score(score: Tensor, b: Tensor, h: Tensor, query: Tensor, key: Tensor) -> Tensor:
        if cap is not None:
            score = cap * torch.tanh(score / cap)
        return score if slopes is None else score - slopes[h] * (query + offset - key).abs()

    return score
