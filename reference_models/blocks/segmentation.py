"""Masks of a picture's maps and of a prompt: the twin of `calc.blocks.segmentation`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from calc.spec import MaskDecoder
from reference_models.blocks.attention import SelfAttention
from reference_models.blocks.cross_attention import CrossAttention
from reference_models.blocks.linear import ACTIVATIONS, NormLayer
from reference_models.blocks.prompt import GivenMask, Points, Prompt, sinusoids
from reference_models.step import Step
from reference_models.support import supported

Map = tuple[Tensor, tuple[int, int]]


class Perceptron(nn.ModuleList):
    """Dense layers with an activation between each two; widths: of what the first reads and what each gives."""

    def __init__(self, *widths: int, activation: str = "relu") -> None:
        super().__init__(nn.Linear(a, b) for a, b in pairwise(widths))
        self.act = ACTIVATIONS[activation]

    def forward(self, x: Tensor) -> Tensor:
        """x [..., first width] -> [..., last width]."""
        *ahead, last = self
        for layer in ahead:
            x = self.act(layer(x))
        return last(x)


class TwoWayLayer(nn.Module):
    """Tokens read themselves and the picture, and the picture reads tokens. first: tokens are their own positions."""

    def __init__(self, spec: MaskDecoder, width: int, *, first: bool) -> None:
        super().__init__()
        own, narrow = spec.attentions(width)
        self.first = first
        self.attention = SelfAttention(own.model_copy(update={"position": "none"}) if first else own, width)
        self.to_image, self.to_tokens = (CrossAttention(narrow, width, width) for _ in range(2))
        self.mlp = Perceptron(width, *[spec.d_ff] * (spec.n_dense - 1), width, activation=spec.activation)
        for i in range(1, 5):
            self.add_module(f"norm{i}", NormLayer(spec.norm, (width,)))

    def forward(
        self, tokens: Tensor, image: Tensor, places: tuple[Tensor, Tensor], step: Step
    ) -> tuple[Tensor, Tensor]:
        """tokens [batch, n, width], image [batch, rows * columns, width] -> the same shapes. places: of both."""
        of_tokens, of_image = places
        norms = [self.get_submodule(f"norm{i}") for i in range(1, 5)]
        y = self.attention(tokens, replace(step, added=of_tokens))
        tokens = norms[0](y if self.first else tokens + y)
        reads = replace(step, added=of_tokens, source=image, source_added=of_image)
        tokens = norms[1](tokens + self.to_image(tokens, reads))
        tokens = norms[2](tokens + self.mlp(tokens))
        reads = replace(step, added=of_image, source=tokens, source_added=of_tokens)
        return tokens, norms[3](image + self.to_tokens(image, reads))


class Masks(nn.Module):
    """Two-way layers over a prompt's tokens and a picture's vectors, and masks of both. front: what reads pictures."""

    directions: Tensor

    def __init__(self, spec: MaskDecoder, width: int, front: Any) -> None:
        super().__init__()
        supported(spec, *MaskDecoder.model_fields)
        self.spec, (_, narrow) = spec, spec.attentions(width)
        # What turns places into sinusoids is drawn once, and in SAM 2 never trained.
        directions = torch.randn(2, width // 2)
        if spec.maps:
            self.register_buffer("directions", directions)
        else:
            self.directions = nn.Parameter(directions)
        self.points = Points(spec, width, (front.height, front.width))
        self.mask, self.no_mask = GivenMask(spec, width), nn.Embedding(1, width)
        self.layers = nn.ModuleList(TwoWayLayer(spec, width, first=i == 0) for i in range(spec.n_layers))
        self.to_image, self.norm = CrossAttention(narrow, width, width), NormLayer(spec.end_norm, (width,))
        self.upscale1 = nn.ConvTranspose2d(width, width // 4, 2, 2)
        self.upscale2 = nn.ConvTranspose2d(width // 4, width // 8, 2, 2)
        self.upscale_norm = NormLayer(spec.upscale_norm, (width // 4,))
        self.of_masks = nn.ModuleList(Perceptron(width, width, width, width // 8) for _ in range(spec.n_masks))
        self.iou = Perceptron(width, *[spec.d_iou] * (spec.iou_depth - 1), spec.n_masks)
        asked = {"iou": 1, "mask": spec.n_masks}
        if spec.maps:
            asked = {"object": 1} | asked
            self.no_memory = nn.Embedding(1, width)
            self.finest, self.fine = nn.Conv2d(width, width // 8, 1), nn.Conv2d(width, width // 4, 1)
            self.object = Perceptron(width, width, width, 1)
        self.asked = [f"{name}_token" for name in asked]
        for name, rows in zip(self.asked, asked.values(), strict=True):
            self.add_module(name, nn.Embedding(rows, width))

    def forward(self, maps: Sequence[Map], prompt: Prompt | None, step: Step) -> dict[str, Tensor]:
        """maps: vectors [batch, rows * columns, width] with rows and columns, the picture's own last -> by name
        `masks` [batch, n_masks, 4 * rows, 4 * columns], how good each is `iou` [batch, n_masks], and `object` [batch,
        1], where the spec asks for it."""
        spec, (image, grid) = self.spec, maps[-1]
        planes = [x.unflatten(1, sides).permute(0, 3, 1, 2) for x, sides in maps]
        finer = (self.finest(planes[0]), self.fine(planes[1])) if spec.maps else None
        if spec.maps:
            image = image + self.no_memory.weight
        prompt = self.points.usual(image, grid) if prompt is None else prompt
        if (prompt.mask is not None) is not spec.given_mask:
            raise ValueError(f"mask: expected {'one' if spec.given_mask else 'none'} with the prompt, found otherwise")
        asked = torch.cat([self.get_parameter(f"{name}.weight") for name in self.asked]).expand(len(image), -1, -1)
        tokens = torch.cat([asked, self.points(prompt, self.directions)], dim=1)
        image = image + (self.no_mask.weight if prompt.mask is None else self.mask(prompt.mask))
        places = tokens, sinusoids(_middles(grid, image), self.directions)
        positions = torch.arange(tokens.shape[1], device=image.device)[None]
        step = Step(positions=positions, kernel=step.kernel, dropout=step.dropout)
        for layer in self.layers:
            tokens, image = layer(tokens, image, places, step)
        reads = replace(step, added=places[0], source=image, source_added=places[1])
        tokens = self.norm(tokens + self.to_image(tokens, reads))
        return self._made(tokens, image, grid, finer)

    def _made(
        self, tokens: Tensor, image: Tensor, grid: tuple[int, int], finer: tuple[Tensor, Tensor] | None
    ) -> dict[str, Tensor]:
        first = int(self.spec.maps)
        x = self.upscale1(image.transpose(1, 2).unflatten(2, grid))
        x = x if finer is None else x + finer[1]
        x = self.upscale_norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        x = self.upscale2(nn.functional.gelu(x))
        x = nn.functional.gelu(x if finer is None else x + finer[0])
        vectors = torch.stack([each(tokens[:, first + 1 + i]) for i, each in enumerate(self.of_masks)], dim=1)
        found = {"masks": (vectors @ x.flatten(2)).unflatten(2, x.shape[2:]), "iou": self.iou(tokens[:, first])}
        if not first:
            return found
        return found | {"iou": found["iou"].sigmoid(), "object": self.object(tokens[:, 0])}


def _middles(grid: tuple[int, int], like: Tensor) -> Tensor:
    """[rows * columns, 2]: the middle of each place, from left to right and down, in shares of a picture's sides."""
    rows, columns = ((torch.arange(n, device=like.device, dtype=like.dtype) + 0.5) / n for n in grid)
    return torch.stack([columns.repeat(len(rows)), rows.repeat_interleave(len(columns))], dim=-1)
