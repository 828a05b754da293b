"""Pictures through a residual network, and the learned queries of a detector's decoder."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from calc.spec import Queries, ResNet
from reference_models.blocks.positions import sinusoidal
from reference_models.step import Step
from reference_models.support import supported

FIELDS = (
    *("height", "width", "channels", "stem", "depths", "widths", "bottleneck", "stride_first", "halve_first_stage"),
    *("trained_from", "axis_positions"),
)
"""Fields of the spec that are computed here."""


class FrozenNorm(nn.Module):
    """A batch norm whose four vectors were learned elsewhere: buffers that no training changes."""

    weight: Tensor
    bias: Tensor
    mean: Tensor
    variance: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        for name, value in (("weight", 1.0), ("bias", 0.0), ("mean", 0.0), ("variance", 1.0)):
            self.register_buffer(name, torch.full((channels,), value))

    def forward(self, x: Tensor) -> Tensor:
        scale = self.weight * torch.rsqrt(self.variance + 1e-5)
        return x * scale[:, None, None] + (self.bias - self.mean * scale)[:, None, None]


class ResidualLayer(nn.Module):
    """Two or three convolutions, each with its norm, and a shortcut (He et al. 2016, figure 5)."""

    def __init__(self, spec: ResNet, d_in: int, d_out: int, stride: int) -> None:
        super().__init__()
        inner = d_out // 4 if spec.bottleneck else d_out
        shapes = [(d_in, inner, 3, stride), (inner, d_out, 3, 1)]
        if spec.bottleneck:
            first, middle = (stride, 1) if spec.stride_first else (1, stride)
            shapes = [(d_in, inner, 1, first), (inner, inner, 3, middle), (inner, d_out, 1, 1)]
        self.count = len(shapes)
        for i, (wide, out, kernel, step) in enumerate(shapes):
            self.add_module(f"conv{i}", nn.Conv2d(wide, out, kernel, step, kernel // 2, bias=False))
            self.add_module(f"norm{i}", FrozenNorm(out))
        if d_in != d_out or stride != 1:
            self.shortcut = nn.Conv2d(d_in, d_out, 1, stride, bias=False)
            self.shortcut_norm = FrozenNorm(d_out)

    def forward(self, x: Tensor) -> Tensor:
        y = x
        for i in range(self.count):
            y = self.get_submodule(f"norm{i}")(self.get_submodule(f"conv{i}")(y))
            y = F.relu(y) if i + 1 < self.count else y
        return F.relu(y + (self.shortcut_norm(self.shortcut(x)) if hasattr(self, "shortcut") else x))


class Backbone(nn.Module):
    """Pictures -> the last stage's map. Stages before `trained_from` are frozen."""

    def __init__(self, spec: ResNet) -> None:
        super().__init__()
        self.stem = nn.Conv2d(spec.channels, spec.stem, 7, 2, 3, bias=False)
        self.stem_norm = FrozenNorm(spec.stem)
        self.stages = nn.ModuleList()
        d_in = spec.stem
        for i, (depth, d_out) in enumerate(zip(spec.depths, spec.widths, strict=True)):
            stride = 2 if i or spec.halve_first_stage else 1
            shapes = [(d_in, d_out, stride)] + [(d_out, d_out, 1)] * (depth - 1)
            layers = nn.Sequential(*(ResidualLayer(spec, *shape) for shape in shapes))
            self.stages.append(nn.ModuleDict({"layers": layers}).requires_grad_(i >= spec.trained_from))
            d_in = d_out
        self.stem.requires_grad_(spec.trained_from < 0)

    def forward(self, pixels: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.stem_norm(self.stem(pixels))), 3, 2, 1)
        for stage in self.stages:
            x = stage.get_submodule("layers")(x)
        return x


class PictureMap(nn.Module):
    """Pictures [batch, channels, height, width] -> vectors [batch, rows * columns, d_model].

    Their positions go to `step.added`, which every layer adds to queries and keys: half of each vector tells the row
    and half the column. Fixed ones count from 1 and are stretched so that a picture's last row and column lie at 2 pi.
    """

    def __init__(self, spec: ResNet, vocab_size: int | None, d_model: int) -> None:
        super().__init__()
        supported(spec, *FIELDS)
        self.spec = spec
        self.backbone = Backbone(spec)
        self.project_in = nn.Conv2d(spec.widths[-1], d_model, 1)
        if spec.axis_positions is not None:
            self.row = nn.Embedding(spec.axis_positions, d_model // 2)
            self.column = nn.Embedding(spec.axis_positions, d_model // 2)

    def forward(self, pixels: Tensor, step: Step) -> Tensor:
        x = self.project_in(self.backbone(pixels))
        step.added = self._positions(*x.shape[-3:]).to(x.dtype)
        # Laid vector by vector here: products that read the map as it lies would each copy it.
        return x.flatten(2).transpose(1, 2).contiguous()

    def _positions(self, d_model: int, n_rows: int, n_columns: int) -> Tensor:
        """[1, rows * columns, d_model]: learned ones tell the column first, fixed ones the row."""
        device = self.project_in.weight.device
        rows, columns = (torch.arange(n, device=device) for n in (n_rows, n_columns))
        learned = self.spec.axis_positions is not None
        if learned:
            down, across = self.row(rows), self.column(columns)
        else:
            down, across = (
                sinusoidal((at + 1) / (len(at) + 1e-6) * 2 * math.pi, d_model // 2) for at in (rows, columns)
            )
        both = [down[:, None].expand(-1, n_columns, -1), across[None].expand(n_rows, -1, -1)]
        return torch.cat(both[::-1] if learned else both, dim=-1).flatten(0, 1)[None]

    def example(self, batch: int, seq: int) -> Tensor:
        """Pictures of the size that is counted by default, to run without data."""
        weight, spec = self.project_in.weight, self.spec
        return torch.zeros(batch, spec.channels, spec.height, spec.width, device=weight.device, dtype=weight.dtype)


class ObjectQueries(nn.Module):
    """A batch of anything -> n_queries zeros for each, [batch, n_queries, d_model].

    The learned vectors go to `step.added`, by which alone the zeros differ in every layer.
    """

    def __init__(self, spec: Queries, vocab_size: int | None, d_model: int) -> None:
        super().__init__()
        supported(spec, "n_queries")
        self.query = nn.Embedding(spec.n_queries, d_model)

    def forward(self, inputs: Tensor, step: Step) -> Tensor:
        """inputs [batch, ...]: only their number counts."""
        step.added = self.query.weight[None]
        return torch.zeros_like(self.query.weight).expand(len(inputs), -1, -1)

    def example(self, batch: int, seq: int) -> Tensor:
        """One placeholder a picture."""
        return torch.zeros(batch, 1, device=self.query.weight.device)
