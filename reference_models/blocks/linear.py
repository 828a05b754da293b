"""Norms, activations and dense layers: what every block is made of."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from calc.spec import Norm


def _gelu_new(x: Tensor) -> Tensor:
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


def _gelu_fast(x: Tensor) -> Tensor:
    return 0.5 * x * (1.0 + torch.tanh(x * 0.7978845608 * (1.0 + 0.044715 * x * x)))


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_new": _gelu_new,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "gelu_fast": _gelu_fast,
    "relu": F.relu,
    "relu2": lambda x: F.relu(x).square(),
    "relu6": F.relu6,
    "leaky_relu": F.leaky_relu,
    "silu": F.silu,
    "hardswish": F.hardswish,
    "mish": F.mish,
    "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
}
"""As transformers 5.23 (activations.py) writes them, kernel by kernel. The three tanh approximations of GELU give the
same numbers; two of them keep what each of their operations reads."""


class NormLayer(nn.Module):
    """LayerNorm or RMSNorm over the last axis, computed in float32, or BatchNorm over all vectors of a batch. shape: of
    the weight, its last axis the norm's.

    LayerNorm is one kernel; a weight of several vectors is multiplied behind it. RMSNorm is written out as in
    transformers' LlamaRMSNorm, or where one plus the weight is multiplied, GemmaRMSNorm, or Olmo2RMSNorm.
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, spec: Norm, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.spec = spec
        if spec.affine:
            self.weight = nn.Parameter(torch.zeros(shape) if spec.unit_offset else torch.ones(shape))
        if spec.bias:
            self.bias = nn.Parameter(torch.zeros(shape))
        if spec.kind == "batchnorm":
            self.register_buffer("running_mean", torch.zeros(shape))
            self.register_buffer("running_var", torch.ones(shape))

    def forward(self, x: Tensor) -> Tensor:
        """x [..., width], of a norm over a batch [batch, seq, width] -> the same shape and dtype."""
        if self.spec.kind == "batchnorm":
            held = self.running_mean, self.running_var, self.weight, self.bias
            y = F.batch_norm(x.transpose(1, 2), *held, training=self.training, eps=self.spec.eps)
            return y.transpose(1, 2)
        if self.spec.kind == "layernorm":
            return self._in_one(x)
        y = wide(x)
        mean = y.pow(2).mean(-1, keepdim=True) + self.spec.eps
        y = (y if self.spec.widened else x) * (mean.pow(-0.5) if self.spec.by_power else torch.rsqrt(mean))
        if self.spec.affine and self.spec.unit_offset:
            y = y * (1.0 + wide(self.weight))
        elif self.spec.affine and self.spec.wide:
            y = (wide(self.weight) if self.spec.by_power else self.weight) * y
        elif self.spec.affine:
            return self.weight * y.to(self.weight.dtype if self.spec.as_weight else x.dtype)
        return y.to(x.dtype)

    def _in_one(self, x: Tensor) -> Tensor:
        weight, bias = (getattr(self, name, None) for name in ("weight", "bias"))
        weight = 1.0 + weight if self.spec.unit_offset and weight is not None else weight
        if weight is None or weight.dim() == 1:
            return F.layer_norm(x, x.shape[-1:], weight, bias, self.spec.eps)
        y = weight * F.layer_norm(x, x.shape[-1:], eps=self.spec.eps)
        return y if bias is None else y + bias


class Cut(nn.Module):
    """Vectors cut to an interval from -bound to bound, which stands in a buffer."""

    bound: Tensor

    def __init__(self, bound: float) -> None:
        super().__init__()
        self.register_buffer("bound", torch.tensor(bound), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """x of any shape -> the same shape."""
        return x.clamp(-self.bound, self.bound)


class Xielu(nn.Module):
    """As transformers' XIELUActivation (Huang and Schlag 2024, arXiv:2411.13010), operation by operation."""

    beta: Tensor
    eps: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.alpha_p = nn.Parameter(torch.tensor([0.2]))
        self.alpha_n = nn.Parameter(torch.tensor([-1.05]))
        self.register_buffer("beta", torch.tensor(0.5), persistent=False)
        self.register_buffer("eps", torch.tensor(-1e-6), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """x of any shape -> the same shape."""
        rising, falling = F.softplus(self.alpha_p), self.beta + F.softplus(self.alpha_n)
        above = rising * x * x + self.beta * x
        return torch.where(x > 0, above, (torch.expm1(torch.min(x, self.eps)) - x) * falling + self.beta * x)


class Clipped(nn.Linear):
    """A dense layer that clamps what it reads and gives. bounds: least and most of the one, then of the other."""

    bounds: Tensor

    def __init__(self, d_in: int, d_out: int, bias: bool) -> None:
        super().__init__(d_in, d_out, bias=bias)
        self.register_buffer("bounds", torch.tensor([[-math.inf, math.inf]] * 2))

    def forward(self, input: Tensor) -> Tensor:
        """x [..., d_in] -> [..., d_out]."""
        (low_in, high_in), (low_out, high_out) = (pair.unbind() for pair in self.bounds.unbind())
        return super().forward(input.clamp(low_in, high_in)).clamp(low_out, high_out)


def clip(module: nn.Module) -> None:
    """Put a `Clipped` in the place of every dense layer within `module`."""
    for name, child in module.named_children():
        if type(child) is nn.Linear:
            setattr(module, name, Clipped(child.in_features, child.out_features, child.bias is not None))
        else:
            clip(child)


def wide(x: Tensor) -> Tensor:
    """x in float32, or as it is where it holds more: what half precision would round too coarsely."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def scaled(x: Tensor, factor: float) -> Tensor:
    """x times a factor; x itself, without a kernel, where that is 1."""
    return x if factor == 1.0 else x * factor


def softcap(x: Tensor, cap: float | None) -> Tensor:
    """cap * tanh(x / cap): almost x where it is small, never past the cap (Gemma 2)."""
    return x if cap is None else cap * torch.tanh(x / cap)


class BlockScale(nn.Module):
    """x [..., width], shifted plus a learned vector, times another, value by value."""

    def __init__(self, width: int, *, shifted: bool = False) -> None:
        super().__init__()
        self.shifted = shifted
        self.weight = nn.Parameter(torch.ones(width))
        if shifted:
            self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        return (x + self.bias if self.shifted else x) * self.weight
