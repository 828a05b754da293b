"""Patches that an encoder saw, and a learned vector in the places of those that it did not."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from calc.spec import Restored
from reference_models.blocks.patches import Table
from reference_models.step import Step
from reference_models.support import supported


class RestoredPatches(nn.Module):
    """A batch of anything -> vectors of all patches of a picture, [batch, 1 + rows * columns, d_model].

    The encoder's, and where they belong, are in `step`; the first of them stands for no patch.
    """

    def __init__(self, spec: Restored, vocab_size: int | None, d_model: int) -> None:
        super().__init__()
        supported(spec, "height", "width", "patch_height", "patch_width", "n_positions")
        self.mask = Table(d_model)
        self.position = Table(spec.n_positions, d_model)
        self.position.weight.requires_grad_(False)

    def forward(self, inputs: Tensor, step: Step) -> Tensor:
        """inputs [batch, ...] are not read. Errors: NotImplementedError for another size of picture."""
        x, restore = step.encoded, step.restore
        if x is None or restore is None:
            raise ValueError("source: expected pictures for the encoder, found none")
        if restore.shape[1] + 1 != len(self.position.weight):
            raise NotImplementedError("Restored.n_positions: no module fits them to another size of picture")
        masks = self.mask.weight.repeat(len(x), restore.shape[1] + 1 - x.shape[1], 1)
        patches = torch.cat([x[:, 1:], masks], dim=1)
        patches = patches.gather(1, restore[..., None].repeat(1, 1, x.shape[-1]))
        return torch.cat([x[:, :1], patches], dim=1) + self.position.weight

    def example(self, batch: int, seq: int) -> Tensor:
        """One placeholder a picture."""
        return torch.zeros(batch, 1, device=self.mask.weight.device)
