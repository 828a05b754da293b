"""Weight-only quantization: dense layers of int8 or int4 with a scale a group, by rounding or by GPTQ."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from reference_models.adapters import in_layers
from reference_models.model import Model


@dataclass(frozen=True)
class Grid:
    """What a weight may become: scale * code, or scale * (code - zero), the same scale for `group` weights of a row.

    bits: 8 or 4. group: None for a whole row. zero: codes from 0 on and a zero point a group, where weights are not
    spread evenly around 0. scale: the format of scales.
    """

    bits: int = 4
    group: int | None = 128
    zero: bool = False
    scale: torch.dtype = torch.float16

    @property
    def span(self) -> tuple[int, int]:
        """The smallest and the largest code."""
        return (0, 2**self.bits - 1) if self.zero else (1 - 2 ** (self.bits - 1), 2 ** (self.bits - 1) - 1)

    def fit(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Scales and zero points [out, 1] of one group [out, n], such that no weight is cut off."""
        low, high = weights.amin(1, keepdim=True).clamp(max=0), weights.amax(1, keepdim=True).clamp(min=0)
        least, most = self.span
        width = (high - low) / most if self.zero else torch.maximum(high, -low) / most
        # Rounded as it is stored, and never 0: a group of zeros has any scale.
        scale = width.clamp(min=torch.finfo(self.scale).tiny).to(self.scale).to(weights.dtype)
        zero = (-low / scale).round().clamp(least, most) if self.zero else torch.zeros_like(scale)
        return scale, zero

    def code(self, weights: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
        """The nearest codes of weights [out, n]."""
        return (weights / scale + zero).round().clamp(*self.span)


class QuantizedLinear(nn.Module):
    """x -> W x + b, W kept as packed codes, scales and zero points, and unpacked for every product."""

    codes: Tensor
    scales: Tensor
    zeros: Tensor | None

    def __init__(self, base: nn.Linear, grid: Grid, codes: Tensor, scales: Tensor, zeros: Tensor) -> None:
        """codes [out, in]; scales and zeros [out, groups]."""
        super().__init__()
        self.grid, self.shape, self.bias = grid, codes.shape, base.bias
        least = grid.span[0]
        self.register_buffer("codes", pack(codes - least, grid.bits))
        self.register_buffer("scales", scales.to(grid.scale))
        self.register_buffer("zeros", pack(zeros, grid.bits) if grid.zero else None)

    def forward(self, x: Tensor) -> Tensor:
        """x [..., in] -> [..., out]."""
        return F.linear(x, self.weight(x.dtype), self.bias)

    def weight(self, dtype: torch.dtype) -> Tensor:
        """W [out, in] as it is multiplied with."""
        rows, columns = self.shape
        codes = unpack(self.codes, self.grid.bits, rows * columns).view(rows, columns).to(dtype) + self.grid.span[0]
        of = torch.arange(columns, device=codes.device) // (self.grid.group or columns)
        if self.zeros is not None:
            zeros = unpack(self.zeros, self.grid.bits, self.scales.numel()).view_as(self.scales)
            codes = codes - zeros.to(dtype)[:, of]
        return codes * self.scales.to(dtype)[:, of]

    @property
    def nbytes(self) -> int:
        """Bytes of codes, scales and zero points."""
        return sum(buffer.nbytes for buffer in self.buffers())


def pack(codes: Tensor, bits: int) -> Tensor:
    """Codes from 0 on -> bytes, two codes of 4 bits in one; half of the last may stay empty."""
    flat = codes.flatten().to(torch.uint8)
    if bits == 8:
        return flat
    flat = F.pad(flat, (0, len(flat) % 2))
    return flat[0::2] | (flat[1::2] << 4)


def unpack(packed: Tensor, bits: int, n: int) -> Tensor:
    """The n codes that `pack` packed."""
    if bits == 8:
        return packed
    return torch.stack([packed & 15, packed >> 4], dim=1).flatten()[:n]


def round_to_nearest(linear: nn.Linear, grid: Grid) -> QuantizedLinear:
    """Every weight to the nearest code of its group."""
    return _by_columns(linear, grid, lambda weights, column, code: None)


def gptq(linear: nn.Linear, gram: Tensor, grid: Grid, damping: float = 0.01) -> QuantizedLinear:
    """Column by column, what rounding one gets wrong is made up for by those not yet rounded.

    gram: sum of x x' over the inputs of a calibration set, [in, in]; half the Hessian of the squared error of the
    result. damping: share of its mean diagonal that is added to the diagonal. A group's scale is fitted when its first
    column is reached. Source: Frantar et al. 2022 (arXiv:2210.17323), algorithm 1, without its blocks of columns.
    """
    gram = gram.to(torch.float64).clone()
    diagonal = gram.diagonal()
    diagonal += damping * diagonal.mean()
    diagonal[diagonal == 0] = 1.0  # inputs that are always 0 tell nothing: plain rounding
    factor = torch.linalg.cholesky(torch.cholesky_inverse(torch.linalg.cholesky(gram)), upper=True)

    def spread(weights: Tensor, column: int, rounded: Tensor) -> None:
        error = (weights[:, column] - rounded) / factor[column, column]
        weights[:, column + 1 :] -= error[:, None] * factor[column, column + 1 :]

    return _by_columns(linear, grid, spread)


def _by_columns(linear: nn.Linear, grid: Grid, spread: Callable[[Tensor, int, Tensor], None]) -> QuantizedLinear:
    """Round one column after the other; spread(weights, column, rounded) may change the columns behind it."""
    weights = linear.weight.detach().to(torch.float64).clone()
    columns = weights.shape[1]
    group = grid.group or columns
    codes, scales, zeros = torch.empty_like(weights), [], []
    for column in range(columns):
        if column % group == 0:
            scale, zero = grid.fit(weights[:, column : column + group])
            scales.append(scale)
            zeros.append(zero)
        code = grid.code(weights[:, column : column + 1], scales[-1], zeros[-1])
        codes[:, column] = code[:, 0]
        spread(weights, column, ((code - zeros[-1]) * scales[-1])[:, 0])
    return QuantizedLinear(linear, grid, codes, torch.cat(scales, dim=1), torch.cat(zeros, dim=1))


def quantize(model: Model, grid: Grid, calibration: dict[str, Any] | None = None) -> Model:
    """`model` itself with every dense matrix of its layers quantized, but for routers; a vision tower stays as it is.

    calibration: arguments of one pass, for GPTQ; None rounds to nearest. The inputs of all matrices are those of the
    model before any of them is quantized.
    """
    found = [
        (parent, name, module)
        for parent, name, module in in_layers(model)
        if isinstance(module, nn.Linear) and name != "router"
    ]
    grams = {} if calibration is None else _grams(model, [module for _, _, module in found], calibration)
    for parent, name, module in found:
        small = gptq(module, grams[module], grid) if calibration is not None else round_to_nearest(module, grid)
        setattr(parent, name, small)
    return model


def _grams(model: Model, modules: list[nn.Linear], calibration: dict[str, Any]) -> dict[nn.Module, Tensor]:
    """Sum of x x' over the inputs x of each module in one pass."""
    grams: dict[nn.Module, Tensor] = {
        module: module.weight.new_zeros(module.in_features, module.in_features, dtype=torch.float64)
        for module in modules
    }

    def add(module: nn.Module, given: tuple[Tensor, ...]) -> None:
        x = given[0].detach().flatten(0, -2).to(torch.float64)
        grams[module] += x.T @ x

    hooks = [module.register_forward_pre_hook(add) for module in modules]
    with torch.no_grad():
        model(**calibration)
    for hook in hooks:
        hook.remove()
    return grams


def weight_bytes(model: nn.Module) -> int:
    """Bytes of all parameters, shared ones once, and of what quantized layers keep in their place."""
    quantized = (module for module in model.modules() if isinstance(module, QuantizedLinear))
    return sum(parameter.nbytes for parameter in model.parameters()) + sum(module.nbytes for module in quantized)
