"""A recurrence as one operation of autograd, whose steps are not kept for backward but run once more there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

Walk = Callable[..., tuple[Tensor, Tensor]]
"""(input, ...) -> what it gives for each token, and the state after the last."""


class RunAgain(torch.autograd.Function):
    """A walk as one operation, which keeps what it reads; going back, it is run once more.

    No gradient reaches the state, nor comes from it.
    """

    @staticmethod
    def forward(ctx: Any, walk: Walk, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        """As `walk` of its inputs."""
        ctx.save_for_backward(*inputs)
        ctx.walk = walk
        y, after = walk(*inputs)
        ctx.mark_non_differentiable(after)
        return y, after

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _state: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        """Gradients of the inputs."""
        inputs = [tensor.detach().requires_grad_() for tensor in ctx.saved_tensors]
        with torch.enable_grad():
            y, _ = ctx.walk(*inputs)
        return None, *torch.autograd.grad(y, inputs, grad)
