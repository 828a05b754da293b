"""The short causal convolution in front of a recurrence, leaving padding out of both, and cutting into chunks."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from reference_models.cache import LayerCache
from reference_models.step import Step


class ShortConvolution(nn.Conv1d):
    """One filter of `taps` values for each channel, over a token and those before it, then SiLU unless not activated.
    Padding stays zero. stepwise: a token behind others is multiplied number by number with those before it."""

    def __init__(self, channels: int, taps: int, *, bias: bool, activated: bool = True, stepwise: bool = False) -> None:
        super().__init__(channels, channels, taps, groups=channels, bias=bias, padding=taps - 1)
        self.activated, self.stepwise = activated, stepwise

    def forward(self, x: Tensor, step: Step, cache: LayerCache | None = None) -> Tensor:
        """x [batch, seq, channels] -> the same shape. The cache holds the last inputs, [batch, channels, taps], one
        less where it is stepwise."""
        inputs, taps = without_padding(x, step).transpose(1, 2), self.kernel_size[0]
        seq, kept = inputs.shape[2], taps - 1 if self.stepwise else taps
        if cache is not None and "conv" in cache.state:
            inputs = torch.cat([cache.state["conv"], inputs], dim=2)
            out = self.behind(inputs)[..., -seq:]
        else:
            out = super().forward(inputs)[..., :seq]
        if cache is not None:
            padded = F.pad(inputs, (max(kept - inputs.shape[2], 0), 0))
            cache.state["conv"] = padded.narrow(2, padded.shape[2] - kept, kept).clone()
        return without_padding((F.silu(out) if self.activated else out).transpose(1, 2), step)

    def behind(self, inputs: Tensor) -> Tensor:
        """inputs [batch, channels, n], taps - 1 or more of them cached -> [batch, channels, n - taps + 1]."""
        if not self.stepwise:
            return F.conv1d(inputs, self.weight, self.bias, groups=self.groups)
        made = (inputs.unfold(2, self.kernel_size[0], 1) * self.weight).sum(dim=-1)
        return made if self.bias is None else made + self.bias[:, None]


def without_padding(x: Tensor, step: Step) -> Tensor:
    """x [batch, seq, width] with zeros at padding: a recurrence has no mask, and zeros leave its state as it is."""
    return x if step.keep is None else x * step.keep[:, -x.shape[1] :, None].to(x.dtype)


def in_chunks(x: Tensor, chunk: int) -> Tensor:
    """x [batch, heads, seq, ...] -> [batch, heads, chunks, chunk, ...], laid out so, the last filled up with zeros."""
    pad = -x.shape[2] % chunk
    whole = F.pad(x, (0, 0) * (x.dim() - 3) + (0, pad)) if pad else x.clone(memory_format=torch.contiguous_format)
    return whole.unflatten(2, (-1, chunk))
