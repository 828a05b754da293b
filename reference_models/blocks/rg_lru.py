"""Griffin's recurrent block, the RG-LRU (De et al. 2024, arXiv:2402.19427, sections 2.3 and 2.4)."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from calc.spec import RgLru
from reference_models.blocks.linear import ACTIVATIONS
from reference_models.blocks.mamba import Recurrence
from reference_models.blocks.run_again import RunAgain
from reference_models.blocks.short_convolution import ShortConvolution, without_padding
from reference_models.cache import Fixed, LayerCache
from reference_models.step import Step, recomputed
from reference_models.support import supported

SHARPNESS = 8.0
"""How much further than its learned rate a channel may fade in one token, the paper's c."""


class RgLruMixer(nn.Module):
    """A branch through convolution and recurrence, times the activation of another, and a projection back."""

    name = "rg_lru"

    def __init__(self, spec: RgLru, d_model: int) -> None:
        super().__init__()
        supported(spec, "d_inner", "n_blocks", "d_conv", "activation")
        width, block = spec.d_inner, spec.d_inner // spec.n_blocks
        self.y_proj, self.x_proj = nn.Linear(d_model, width), nn.Linear(d_model, width)
        self.conv = ShortConvolution(width, spec.d_conv, bias=True, activated=False, stepwise=True)
        # The matrices of all blocks, one above the other.
        self.input_gate, self.recurrence_gate = nn.Linear(block, width), nn.Linear(block, width)
        self.fade = nn.Parameter(torch.linspace(-9.0, -4.0, width))
        self.o_proj = nn.Linear(width, d_model)
        self.spec = spec

    def new_cache(self, length: int | None) -> LayerCache:
        """The last inputs of the convolution and the state, whatever the length."""
        return Fixed()

    def forward(self, x: Tensor, step: Step, cache: LayerCache | None = None) -> Tensor:
        """x [batch, seq, d_model] -> the same shape."""
        gate = ACTIVATIONS[self.spec.activation](self.y_proj(x))
        x = self.conv(self.x_proj(x), step, cache)
        laid = x if len(x) == 1 else x.clone(memory_format=torch.contiguous_format)
        gates = [self.in_blocks(each, laid) for each in (self.input_gate, self.recurrence_gate)]
        state = None if cache is None else cache.state.get("state")
        run = partial(RunAgain.apply, partial(walk, state, step.positions == 0))
        arguments = (x, *gates, self.fade)
        y, after = recomputed(run, *arguments) if step.checkpointing == "selective" else run(*arguments)
        if cache is not None:
            cache.state["state"] = after
        return self.o_proj(without_padding(y, step) * gate)

    def in_blocks(self, gate: nn.Linear, x: Tensor) -> Tensor:
        """x [batch, seq, width], each block of it times a matrix of its own -> the same shape."""
        n = self.spec.n_blocks
        matrices, bias = gate.weight.unflatten(0, (n, -1)), gate.bias.view(n, 1, -1)
        by_block = x.reshape(-1, n, matrices.shape[-1]).transpose(0, 1)
        return torch.baddbmm(bias, by_block, matrices.transpose(1, 2)).transpose(0, 1).reshape(x.shape)


def walk(
    state: Tensor | None, first: Tensor, x: Tensor, opens: Tensor, fades: Tensor, rate: Tensor
) -> tuple[Tensor, Tensor]:
    """h_t = a_t h_(t-1) + sqrt(1 - a_t^2) sigmoid(opens_t) x_t, where log a_t = -8 sigmoid(fades_t) softplus(rate).

    x, opens, fades [batch, seq, d]; rate [d]; state [batch, d] or None; first [batch or 1, seq]: where a text begins,
    whose first input counts as it is. In fp32; h in the format of x. Source: De et al. 2024, equations 1 to 4;
    transformers 5.23, models/recurrent_gemma/modeling_recurrent_gemma.py.
    """
    log = -SHARPNESS * fades.float().sigmoid() * F.softplus(rate.float())
    begins = first[..., None]
    factor = log.exp().masked_fill(begins, 0.0)
    # No slope at all where nothing fades, in place of one without end.
    share = (-torch.expm1(2 * log)).clamp_min(1e-12).sqrt().masked_fill(begins, 1.0)
    update = share * opens.float().sigmoid() * x.float()
    before = update.new_zeros(update[:, 0].shape) if state is None else state
    states = Recurrence.apply(factor, update, before)
    return states.to(x.dtype), states[:, -1]
