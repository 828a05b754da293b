"""What brings a vision tower's vectors to the width of the stack that reads them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from calc.spec import Projector
from reference_models.blocks.convolution import ConvolutionLayer
from reference_models.blocks.linear import ACTIVATIONS, NormLayer
from reference_models.blocks.mlp import FeedForward
from reference_models.support import supported

FIELDS = (
    *(
        "name",
        "depths",
        "merge",
        "merge_rows",
        "join",
        "scale",
        "standardized",
        "skip",
        "skip_first",
        "before",
        "convolutions",
        "norm",
        "newline",
        "n_unread_marks",
        "after",
        "channel",
        "layers",
    ),
    "activation",
)
"""Fields of the spec that are computed here."""


class Projection(nn.Module):
    """Vectors that stand next to one another joined, normed, and passed through dense layers."""

    # What was measured elsewhere, where the spec has it.
    mean: Tensor
    factor: Tensor

    def __init__(self, spec: Projector, d_model: int, d_reader: int) -> None:
        super().__init__()
        supported(spec, *FIELDS)
        self.spec = spec
        self.act = ACTIVATIONS[spec.activation]
        for each in spec.convolutions:
            self.add_module(each.name, ConvolutionLayer(each, d_model))
            d_model = each.n_channels
        width = spec.merge * d_model if spec.join == "concat" else d_model
        if spec.before is not None:
            self.before = NormLayer(spec.before, (d_model,))
        if spec.standardized:
            self.register_buffer("mean", torch.zeros(width))
            self.register_buffer("factor", torch.ones(width))
        if spec.norm is not None:
            self.norm = NormLayer(spec.norm, (width,))
        for layer in spec.layers:
            width = width // 2 if layer.gated else width
            d_out = d_reader if layer is spec.layers[-1] else layer.d_out or width
            self.add_module(layer.name, nn.Linear(width, d_out, bias=layer.bias))
            width = d_out
        if spec.after is not None and spec.channel is not None:
            self.after = NormLayer(spec.after, (width,))
            self.mlp = FeedForward(spec.channel, width)
        if spec.newline:
            self.newline = nn.Module()
            self.newline.weight = nn.Parameter(torch.empty(d_reader).normal_(std=0.02))
        if spec.n_unread_marks:
            self.unread_marks = nn.Embedding(spec.n_unread_marks, d_reader)

    def forward(self, x: Tensor, grid: tuple[int, int] | None = None) -> Tensor:
        """x [batch, n, d_model] -> [batch, (n - skip) / merge, d_reader].

        grid: rows and columns of the patches; None: they stand in one row of blocks.
        """
        if self.spec.convolutions:
            x, grid = self._convolved(x, grid), None
        skip = self.spec.skip
        x = self._by_blocks(x[:, skip:] if self.spec.skip_first else x[:, : x.shape[1] - skip], grid)
        x = self._joined(x if self.spec.before is None else self.before(x))
        x = x if self.spec.scale == 1.0 else x * self.spec.scale
        x = (x - self.mean) * self.factor if self.spec.standardized else x
        x = x if self.spec.norm is None else self.norm(x)
        for i, layer in enumerate(self.spec.layers):
            if layer.gated:
                value, gate = x.chunk(2, dim=-1)
                x = self.act(gate) * value
            elif i and layer.activated:
                x = self.act(x)
            x = self.get_submodule(layer.name)(x)
        return x if self.spec.channel is None else self.mlp(self.act(self.after(x)))

    def _convolved(self, x: Tensor, grid: tuple[int, int] | None) -> Tensor:
        """x [batch, rows * columns, d_model] -> [batch, what the strides leave, n_channels of the last]."""
        if grid is None:
            raise ValueError("a picture: expected rows and columns of patches, found a sequence")
        x = x.transpose(1, 2).unflatten(2, grid)
        for each in self.spec.convolutions:
            x = self.get_submodule(each.name)(x)
        return x.flatten(2).transpose(1, 2)

    def _by_blocks(self, x: Tensor, grid: tuple[int, int] | None) -> Tensor:
        """x [batch, n, d] in the order of the blocks that are joined, each row by row."""
        high, wide = self.spec.merge_rows, self.spec.merge // self.spec.merge_rows
        rows, columns = grid or (high, x.shape[1] // high)
        if rows % high or columns % wide:
            raise ValueError(f"a picture: expected whole blocks of {high} x {wide} patches, found {rows} x {columns}")
        return x.unflatten(1, (rows // high, high, columns // wide, wide)).transpose(2, 3).flatten(1, 4)

    def _joined(self, x: Tensor) -> Tensor:
        """x [batch, n, d] -> [batch, n / merge, d, or merge * d side by side]."""
        if self.spec.join == "concat":
            return x.unflatten(1, (-1, self.spec.merge)).flatten(2)
        if self.spec.join == "mean":
            return x.unflatten(1, (-1, self.spec.merge)).mean(2)
        places = torch.arange(x.shape[1], device=x.device) // self.spec.merge
        rows = torch.arange(x.shape[1] // self.spec.merge, device=x.device)
        weights = (places[None, :] == rows[:, None]).to(x.dtype) / self.spec.merge
        return weights.expand(len(x), -1, -1) @ x
