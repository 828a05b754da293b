"""What makes speech of a text, of which a pass that writes text runs nothing: weights, by their names."""

from __future__ import annotations

import torch
from torch import nn

from calc.spec import Speech
from reference_models.support import supported


class SpeechWeights(nn.Module):
    """Each weight where its path says; no gradient comes to any."""

    def __init__(self, spec: Speech, d_model: int) -> None:
        super().__init__()
        supported(spec, "units", "vocoder")
        for path, shape in spec.weights(d_model):
            *outer, name = path.split(".")
            at: nn.Module = self
            for each in outer:
                if not hasattr(at, each):
                    at.add_module(each, nn.Module())
                at = at.get_submodule(each)
            at.register_parameter(name, nn.Parameter(torch.empty(shape).normal_(std=0.02), requires_grad=False))
