"""Sound in: convolutions, codebooks, projection and positions ahead of a speech model's layers."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from calc.spec import Frames, PositionConvolution, Quantizer
from reference_models.blocks.convolution import ConvolutionLayer
from reference_models.blocks.linear import NormLayer
from reference_models.blocks.positions import sinusoidal
from reference_models.step import Step
from reference_models.support import supported

FIELDS = (
    *(
        "n_frames",
        "piece",
        "d_frame",
        "convolutions",
        "before",
        "project",
        "project_bias",
        "n_positions",
        "trained_positions",
    ),
    *("scale", "sinusoidal", "sinusoid", "position_offset", "position_convolution", "quantizer", "mask_vector", "norm"),
)
"""Fields of the spec that are computed here."""


class FrameEmbedding(nn.Module):
    """Frames [batch, n, d_frame] -> vectors [batch, steps, d_model].

    Targets of a contrastive loss, where codebooks make some, go to `step.targets`. A table of fixed positions holds
    sinusoids and is not trained.
    """

    def __init__(self, spec: Frames, vocab_size: int | None, d_model: int) -> None:
        super().__init__()
        supported(spec, *FIELDS)
        self.spec = spec
        planes, values = (1, spec.d_frame) if spec.over_values else (spec.d_frame, 1)
        for each in spec.convolutions:
            if each.dims == 1:
                planes, values = planes * values, 1
            self.add_module(each.name, ConvolutionLayer(each, planes))
            planes = each.n_channels // 2 if each.glu else each.n_channels
            values = each.values(values) if each.dims == 2 else values
        width = planes * values
        if spec.before is not None:
            self.before = NormLayer(spec.before, (width,))
        if spec.quantizer is not None:
            self.quantizer = Codebooks(spec.quantizer, width)
        if spec.project:
            self.project_in = nn.Linear(width, d_model, bias=spec.project_bias)
        if spec.mask_vector:
            self.mask = nn.Embedding(1, d_model)
            self.mask.weight = nn.Parameter(torch.empty(d_model).uniform_())
        if spec.n_positions is not None:
            self.position = nn.Embedding(spec.n_positions, d_model)
            if not spec.trained_positions:
                places = torch.arange(spec.n_positions, device=self.position.weight.device)
                self.position.weight = nn.Parameter(sinusoidal(places, d_model, spec.sinusoid), requires_grad=False)
        if spec.position_convolution is not None:
            self.position_convolution = ConvolvedPositions(spec.position_convolution, d_model)
        if spec.norm is not None:
            self.norm = NormLayer(spec.norm, (d_model,))

    def forward(self, frames: Tensor, step: Step) -> Tensor:
        batch, piece = len(frames), self.spec.piece
        x = self._convolve(frames if piece is None else frames.unflatten(1, (-1, piece)).flatten(0, 1))
        if self.spec.before is not None:
            x = self.before(x)
        if self.spec.quantizer is not None:
            step.targets.append(self.quantizer(x))
        if self.spec.project:
            x = self.project_in(x)
        if self.spec.mask_vector and step.masked is not None:
            x = torch.where(step.masked[..., None], self.mask.weight.to(x.dtype), x)
        x = x * self.spec.scale
        places = torch.arange(x.shape[1], device=x.device)
        if self.spec.n_positions is not None:
            x = x + self.position(places)
        if self.spec.sinusoidal:
            x = x + sinusoidal(places + self.spec.position_offset, x.shape[-1], self.spec.sinusoid).to(x.dtype)
        if self.spec.position_convolution is not None and self.spec.position_convolution.runs:
            x = x + self.position_convolution(x)
        x = x if piece is None else x.unflatten(0, (batch, -1)).flatten(1, 2)
        return x if self.spec.norm is None else self.norm(x)

    def _convolve(self, frames: Tensor) -> Tensor:
        """[batch, n, d_frame] -> [batch, steps, width]; what is left of a frame's values lies side by side."""
        x = frames[:, None] if self.spec.over_values else frames.transpose(1, 2)
        for each in self.spec.convolutions:
            if each.dims == 1 and x.dim() == 4:
                x = x.transpose(2, 3).flatten(1, 2)
            x = self.get_submodule(each.name)(x)
        if self.spec.over_values and self.spec.convolutions[-1].norm == "cumulative":
            return x.permute(0, 2, 3, 1).flatten(2)
        return x.transpose(2, 3).flatten(1, 2).transpose(1, 2) if x.dim() == 4 else x.transpose(1, 2)

    def example(self, batch: int, seq: int) -> Tensor:
        """Frames [batch, seq, d_frame] to run without data."""
        weight = next(self.parameters())
        return torch.zeros(batch, seq, self.spec.d_frame, device=weight.device, dtype=weight.dtype)


class ConvolvedPositions(nn.Module):
    """A grouped convolution in place of positions; its weight is a direction and, a step of the kernel, a length."""

    def __init__(self, spec: PositionConvolution, d_model: int) -> None:
        super().__init__()
        supported(spec, "kernel", "n_groups", "runs")
        self.spec = spec
        self.conv = nn.Conv1d(d_model, d_model, spec.kernel, padding=spec.kernel // 2, groups=spec.n_groups)
        self.scale = nn.Parameter(self.conv.weight.detach().square().sum((0, 1)).sqrt())

    def forward(self, x: Tensor) -> Tensor:
        """x [batch, n, d_model] -> the same shape; an even kernel's one step too many is dropped."""
        weight, conv = self.conv.weight, self.conv
        weight = weight * (self.scale / weight.square().sum((0, 1)).sqrt())
        y = F.conv1d(x.transpose(1, 2), weight, conv.bias, padding=conv.padding, groups=conv.groups)
        return F.gelu(y[..., : x.shape[1]]).transpose(1, 2)


class Codebooks(nn.Module):
    """Vectors [batch, n, width] -> targets [batch, n, d_target]: the best entry of every codebook, side by side.

    The choice is hard going forward and soft going back (Jang et al. 2017), without noise.
    """

    def __init__(self, spec: Quantizer, width: int) -> None:
        super().__init__()
        supported(spec, "n_codebooks", "n_entries", "d_code", "d_target")
        self.spec = spec
        entries = spec.n_codebooks * spec.n_entries
        self.scores = nn.Linear(width, entries)
        self.codevectors = nn.Parameter(torch.empty(entries, spec.d_code // spec.n_codebooks).uniform_())
        self.project = nn.Linear(spec.d_code, spec.d_target)

    def forward(self, x: Tensor) -> Tensor:
        scores = self.scores(x).unflatten(-1, (self.spec.n_codebooks, -1))
        soft = scores.softmax(-1)
        hard = torch.zeros_like(soft).scatter(-1, scores.argmax(-1, keepdim=True), 1.0)
        chosen = (hard - soft.detach() + soft)[..., None]
        books = self.codevectors.unflatten(0, (self.spec.n_codebooks, -1))
        return self.project((chosen * books).sum(-2).flatten(-2))
