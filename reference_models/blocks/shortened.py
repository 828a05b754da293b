"""Between two groups of layers: convolutions with a stride and attention over what they leave of a sequence."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from calc.spec import Norm, Shortened
from reference_models.blocks.attention import SelfAttention
from reference_models.blocks.linear import NormLayer
from reference_models.step import Step
from reference_models.support import supported


class ShorterSequence(nn.Module):
    """[batch, seq, d_model] -> [batch, steps, d_model], and the step of those that read them."""

    def __init__(self, spec: Shortened, norm: Norm, d_model: int) -> None:
        super().__init__()
        supported(spec, "kernel", "stride", "padding", "attention")
        for name in ("residual", "attention"):
            self.add_module(f"{name}_norm", NormLayer(norm, (d_model,)))
            conv = nn.Conv1d(d_model, 2 * d_model, spec.kernel, spec.stride, spec.padding)
            self.add_module(f"{name}_conv", conv)
        self.attention = SelfAttention(spec.attention, d_model)

    def forward(self, x: Tensor, step: Step) -> tuple[Tensor, Step]:
        """Errors: ValueError beside padding, of which it is not said which steps it leaves."""
        if step.keep is not None:
            raise ValueError("inputs: expected sequences without padding, which become shorter")
        kept, read = (self._strided(name, x) for name in ("residual", "attention"))
        step = replace(step, positions=torch.arange(kept.shape[1], device=x.device)[None])
        # What is computed again stands within layers.
        return self.attention(read, replace(step, checkpointing="none")) + kept, step

    def _strided(self, name: str, x: Tensor) -> Tensor:
        normed = self.get_submodule(f"{name}_norm")(x)
        made = self.get_submodule(f"{name}_conv")(normed.transpose(1, 2))
        return F.glu(made, dim=1).transpose(1, 2)
