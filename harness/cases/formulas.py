"""What passes over memory compute, by their formulas in float64, whatever kernels their modules call.

torch is imported inside the functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from harness.profiling.passes import Made

D_HEAD = 64
"""Of the heads whose scores `softmax` scales, as `harness.profiling.passes` makes them."""


def written_out(function: str, made: Made, operands: Sequence[Tensor]) -> Tensor:
    """The result of the pass `made` on operands in float64, with what else it reads from its maker."""
    import torch

    x = operands[0]
    weights = [each.detach().double() for each in made.weights]
    formulas: dict[str, Callable[[], Tensor]] = {
        "copy": lambda: operands[1],
        "add": lambda: operands[0] + operands[1],
        "scale": lambda: operands[0] * operands[1],
        "gelu": lambda: _gelu(x),
        "gelu_tanh": lambda: x * torch.sigmoid(2 * (2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3)),
        "relu": lambda: x * (x > 0),
        "silu": lambda: x / (1 + torch.exp(-x)),
        "sigmoid": lambda: 1 / (1 + torch.exp(-x)),
        "swiglu": lambda: x / (1 + torch.exp(-x)) * operands[1],
        "geglu": lambda: _gelu(x) * operands[1],
        "rmsnorm": lambda: weights[0] * x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt(),
        "layernorm": lambda: weights[0] * _standardized(x) + weights[1],
        "rope": lambda: _turned(x, *made.given),
        "softmax": lambda: _masked_softmax(x, made.given[0]),
        "cross_entropy": lambda: _cross_entropy(x, made.given[0]),
        "gather": lambda: weights[0][x],
    }
    return formulas[function]()


def _gelu(x: Tensor) -> Tensor:
    import torch

    return x * 0.5 * (1 + torch.erf(x / 2**0.5))


def _standardized(x: Tensor) -> Tensor:
    return (x - x.mean(-1, keepdim=True)) / (x.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()


def _turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Each pair (x[i], x[i + d/2]) as a complex number, times one of the angle's (Su et al. 2021, equation 13)."""
    import torch

    half = x.shape[-1] // 2
    turned = torch.complex(x[..., :half], x[..., half:]) * torch.complex(cos.double(), sin.double())[..., :half]
    return torch.cat([turned.real, turned.imag], -1)


def _masked_softmax(x: Tensor, mask: Tensor) -> Tensor:
    """Of scaled scores, where `mask` is True; 0 elsewhere."""
    powers = (x * D_HEAD**-0.5).exp() * mask
    return powers / powers.sum(-1, keepdim=True)


def _cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """The mean of log(sum of exp(logits)) less the target's logit."""
    return (logits.exp().sum(-1).log() - logits.gather(-1, targets[..., None])[..., 0]).mean()
