"""Modules that predict further tokens (DeepSeek-V3, arXiv:2412.19437, section 2.2), the twins of `calc.blocks.mtp`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import Tensor, nn

from calc.spec import LayerGroup, Moe, Mtp
from reference_models.blocks.linear import NormLayer
from reference_models.cache import LayerCache
from reference_models.layer import Layer
from reference_models.layer_pass import run_layer
from reference_models.step import Step


class FurtherToken(Layer):
    """One module: a layer that reads a later token's vector beside what the module before it gave, and a norm.

    The vector of the token comes first in what is projected, as released checkpoints have it and transformers 5.23
    (modeling_layers.py, MtpLayer) computes it; equation 21 of the report writes it last.
    """

    def __init__(self, spec: Mtp, d_model: int) -> None:
        if isinstance(spec.channel, Moe) and spec.channel.by_token:
            raise NotImplementedError("Mtp.channel.by_token: no module looks up experts of the token that it reads")
        super().__init__(LayerGroup(count=1, mixer=spec.mixer, channel=spec.channel, norm=spec.norm), d_model, 0)
        self.embed_norm = NormLayer(spec.norm, (d_model,))
        self.hidden_norm = NormLayer(spec.norm, (d_model,))
        self.proj = nn.Linear(2 * d_model, d_model, bias=False)
        self.final_norm = NormLayer(spec.norm, (d_model,))

    def forward(
        self,
        x: Tensor,
        step: Step,
        mixer: LayerCache | None = None,
        cross: LayerCache | None = None,
        late: Tensor | None = None,
    ) -> Tensor:
        """x [batch, seq, 2 * d_model], a token's vector beside the last result -> [batch, seq, d_model]."""
        embedded, last = x.chunk(2, dim=-1)
        projected = self.proj(torch.cat([self.embed_norm(embedded), self.hidden_norm(last)], dim=-1))
        return self.final_norm(super().forward(projected, step, mixer, cross, late))


def further(modules: Iterable[nn.Module], first: Tensor, x: Tensor, step: Step) -> list[Tensor]:
    """What each module makes of the sequence, [batch, seq, d_model] each; the head gives its logits.

    first: the vectors of the tokens, before the layers. x: what the main stack gave, after its final norm. Module k
    (from 0) reads at place i token i + k + 1 and helps to predict token i + k + 2. The last k + 1 places have no token
    so far ahead; they run all the same, on tokens from the start of the sequence, and mean nothing. No place before
    them sees them, as attention is causal. step: as the main stack's layers saw it, `layer` the first number
    behind theirs.
    """
    found: list[Tensor] = []
    for k, module in enumerate(modules):
        assert isinstance(module, FurtherToken)
        own = replace(step, layer=step.layer + k, own_input=None)
        x = run_layer(module, torch.cat([first.roll(-k - 1, dims=1), x], dim=-1), own, None, None)
        found.append(x)
    return found
