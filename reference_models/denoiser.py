"""A denoiser: the twin of `calc.blocks.denoising`, one step of a diffusion transformer.

Source: Peebles and Xie 2023 (arXiv:2212.09748, section 3.2); Esser et al. 2024 (arXiv:2403.03206, section 4).
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from calc.spec import Conditioning, Denoised, Denoising, Latents, ModelSpec
from reference_models.blocks.denoising import DenoisingLayer, modulated
from reference_models.blocks.patches import Table
from reference_models.blocks.positions import laid
from reference_models.step import Checkpointing, Kernel, Step, recomputed
from reference_models.support import supported

THETA = 10_000.0
NO_CLASS = 0.1
"""The share of pictures whose class training takes away (Ho and Salimans 2022, arXiv:2207.12598)."""


class Denoiser(nn.Module):
    """Latents and a step in, and what describes the picture: for each patch, d_out values of the noise in it."""

    # Any: nn.Module knows its children only at run time.
    embedding: Any
    layers: Any
    conditioning: Any

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        front, end = spec.embedding, spec.denoised
        if not isinstance(front, Latents) or end is None:
            raise TypeError(f"spec: expected a denoiser, found {spec.name}")
        self.spec, self.front = spec, front
        self.embedding = LatentEmbedding(front, spec.d_model)
        if front.conditioning is not None:
            self.conditioning = ConditioningSum(front.conditioning, spec.d_model)
        layers: list[nn.Module] = []
        for group in spec.layers:
            for _ in range(group.count):
                assert group.denoising is not None
                layer = DenoisingLayer(group.denoising, spec.d_model)
                if group.denoising.conditioning is not None:
                    layer.conditioning = ConditioningSum(group.denoising.conditioning, spec.d_model)
                layers.append(layer)
        self.layers = nn.ModuleList(layers)
        last = spec.layers[-1].denoising
        assert last is not None
        self.denoised = Ending(end, last, spec.d_model)

    def forward(
        self,
        latents: Tensor,
        steps: Tensor,
        *,
        classes: Tensor | None = None,
        text: Tensor | None = None,
        pooled: Tensor | None = None,
        guidance: Tensor | None = None,
        kernel: Kernel = "eager",
        checkpointing: Checkpointing = "none",
    ) -> Tensor:
        """latents [batch, channels, height, width], steps [batch] -> [batch, patches, d_out].

        classes, guidance [batch]; text [batch, n_text, d_text], pooled [batch, d_pooled]: where the model reads them.
        """
        told = {"classes": classes, "pooled": pooled, "guidance": guidance}
        x, grid = self.embedding(latents)
        heard = None if text is None else self.embedding.text(text)
        step = Step(torch.arange(x.shape[1], device=x.device)[None], kernel=kernel, checkpointing=checkpointing)
        angles = self._angles(grid, 0 if heard is None else heard.shape[1], x.device)
        given = self.conditioning(steps, x.dtype, **told) if self.front.conditioning is not None else None
        for layer in self.layers:

            def run(x: Tensor, heard: Tensor | None, layer: Any = layer) -> tuple[Tensor, Tensor | None]:
                own = layer.conditioning(steps, x.dtype, **told) if given is None else given
                return layer(x, heard, own, angles, step)

            again = checkpointing in ("full", "full-early-stop")
            early = checkpointing == "full-early-stop"
            x, heard = recomputed(run, x, heard, early_stop=early) if again else run(x, heard)
        last = self.layers[0].conditioning(steps, x.dtype, **told) if given is None else given
        return self.denoised(x, last)

    def example(self, batch: int) -> dict[str, Tensor]:
        """Inputs of `batch` pictures of the model's own size, to run without data."""
        like, front, layer = self.denoised.out_proj.weight, self.front, self.spec.layers[0].denoising
        known = front.conditioning or (None if layer is None else layer.conditioning)
        assert known is not None
        sizes = {"latents": (front.channels, front.height, front.width), "steps": ()}
        sizes |= {"guidance": ()} if known.guidance else {}
        sizes |= {} if known.d_pooled is None else {"pooled": (known.d_pooled,)}
        sizes |= {} if front.n_text is None else {"text": (front.n_text, front.d_text)}
        made = {name: like.new_zeros(batch, *shape) for name, shape in sizes.items()}
        return made if known.n_classes is None else made | {"classes": like.new_zeros(batch, dtype=torch.long)}

    def _angles(self, grid: tuple[int, int], n_text: int, device: torch.device) -> tuple[Tensor, Tensor] | None:
        """Cosines and sines [1, 1, n_text + patches, d_head] of a text, all of whose places are 0, and of patches."""
        axes = next((group.denoising.axes for group in self.spec.layers if group.denoising is not None), None)
        if axes is None:
            return None
        rows, columns = (torch.arange(n, device=device) for n in grid)
        row, column = torch.meshgrid(rows, columns, indexing="ij")
        places = F.pad(torch.stack([torch.zeros_like(row), row, column]).flatten(1), (n_text, 0))
        turns = [
            place[:, None].double() / THETA ** (torch.arange(0, width, 2, device=device).double() / width)
            for place, width in zip(places, axes, strict=True)
        ]
        both = torch.cat(turns, -1)[None, None]
        return laid(both.cos().float(), True), laid(both.sin().float(), True)


class LatentEmbedding(nn.Module):
    """Patches as vectors, with sinusoids of their places where the model adds any; and a text's vectors."""

    def __init__(self, spec: Latents, d_model: int) -> None:
        super().__init__()
        supported(
            spec,
            *(
                "height",
                "width",
                "pixels",
                "patch",
                "channels",
                "d_text",
                "n_text",
                "packed",
                "placed",
                "n_side",
                "conditioning",
            ),
        )
        self.spec = spec
        if spec.packed:
            self.patch = nn.Linear(spec.channels, d_model)
        else:
            self.patch = nn.Conv2d(spec.channels, d_model, spec.patch, spec.patch)
        if spec.d_text is not None:
            self.text = nn.Linear(spec.d_text, d_model)

    def forward(self, latents: Tensor) -> tuple[Tensor, tuple[int, int]]:
        """[batch, patches, d_model], and how many rows and columns of patches there are."""
        grid = (latents.shape[2] // self.spec.patch, latents.shape[3] // self.spec.patch)
        if self.spec.packed:
            return self.patch(latents.flatten(2).transpose(1, 2).contiguous()), grid
        x = self.patch(latents).flatten(2).transpose(1, 2)
        return (x + self._places(grid, x)).to(x.dtype).contiguous() if self.spec.placed else x, grid

    def _places(self, grid: tuple[int, int], x: Tensor) -> Tensor:
        """[patches, d_model]: sines and cosines of columns, then of rows, in fp32; the middle of a larger table."""
        base, width = self.spec.height // self.spec.patch, x.shape[-1]
        side = self.spec.n_side
        omega = THETA ** -(torch.arange(width // 4, device=x.device).double() / (width // 4))
        of_axes = []
        for n in grid:
            first, scale = (0, n / base) if side is None else ((side - n) // 2, side / base)
            turns = (torch.arange(n, device=x.device) + first).double()[:, None] / scale * omega
            of_axes.append(torch.cat([turns.sin(), turns.cos()], -1))
        row, column = of_axes
        across = column[None].expand(grid[0], -1, -1)
        return torch.cat([across, row[:, None].expand(-1, grid[1], -1)], -1).flatten(0, 1).float()


class ConditioningSum(nn.Module):
    """The vector of each picture that its layers are modulated by: a sum of what is known of it."""

    def __init__(self, spec: Conditioning, d_model: int) -> None:
        super().__init__()
        supported(spec, "d_time", "guidance", "d_pooled", "n_classes")
        self.spec = spec
        widths = {"time": spec.d_time}
        widths |= {"guidance": spec.d_time} if spec.guidance else {}
        widths |= {} if spec.d_pooled is None else {"pooled": spec.d_pooled}
        for name, width in widths.items():
            self.add_module(f"{name}1", nn.Linear(width, d_model))
            self.add_module(f"{name}2", nn.Linear(d_model, d_model))
        if spec.n_classes is not None:
            self.add_module("class", Table(spec.n_classes, d_model))

    def forward(
        self,
        steps: Tensor,
        dtype: torch.dtype,
        *,
        classes: Tensor | None,
        pooled: Tensor | None,
        guidance: Tensor | None,
    ) -> Tensor:
        """steps [batch] -> [batch, d_model]."""
        x = self._pair("time", self._sinusoids(steps).to(dtype))
        if guidance is not None:
            x = x + self._pair("guidance", self._sinusoids(guidance).to(dtype))
        if pooled is not None:
            x = x + self._pair("pooled", pooled)
        if self.spec.n_classes is not None and classes is not None:
            gone = torch.rand(classes.shape, device=classes.device) < NO_CLASS * self.training
            x = (
                x
                + self.get_submodule("class").get_parameter("weight")[
                    torch.where(gone, self.spec.n_classes - 1, classes)
                ]
            )
        return x

    def _pair(self, name: str, x: Tensor) -> Tensor:
        return self.get_submodule(f"{name}2")(F.silu(self.get_submodule(f"{name}1")(x)))

    def _sinusoids(self, steps: Tensor) -> Tensor:
        """[batch, d_time]: cosines, then sines; of a table of classes' kin the last frequency is THETA's inverse."""
        half = self.spec.d_time // 2
        last = half - (self.spec.n_classes is not None)
        turns = steps[:, None].float() * THETA ** -(torch.arange(half, device=steps.device) / last)
        return torch.cat([turns.cos(), turns.sin()], -1)


class Ending(nn.Module):
    """A norm that the conditioning scales and shifts, and a matrix to the values of each patch."""

    def __init__(self, spec: Denoised, last: Denoising, d_model: int) -> None:
        super().__init__()
        supported(spec, "d_out", "remakes_conditioning")
        self.spec, self.eps = spec, last.eps
        self.modulation = nn.Linear(d_model, 2 * d_model)
        self.out_proj = nn.Linear(d_model, spec.d_out)

    def forward(self, x: Tensor, given: Tensor) -> Tensor:
        """[batch, patches, d_model] -> [batch, patches, d_out]."""
        scale, shift = self.modulation(F.silu(given)).chunk(2, -1)
        if self.spec.remakes_conditioning:
            scale, shift = shift, scale
        return self.out_proj(modulated(F.layer_norm(x, x.shape[-1:], eps=self.eps), scale, shift))
