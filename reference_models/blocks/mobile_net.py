"""MobileNet-v5: blocks of convolutions and of attention over a picture's map, and an adapter that fuses two maps."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from calc.spec import MobileNet, MobileStage
from reference_models.support import supported


class Eyes(nn.Module):
    """Pictures [n, 3, rows, columns] -> vectors [n, left * left, d_out]."""

    def __init__(self, spec: MobileNet) -> None:
        super().__init__()
        supported(spec, "side", "stem", "stages", "d_out", "expansion", "left")
        self.spec = spec
        self.conv_stem = Convolved(3, spec.stem, 3, stride=2, bias=True)
        self.blocks, width = nn.ModuleList(), spec.stem
        for stage in spec.stages:
            self.blocks.append(nn.Sequential(*_blocks(stage, width)))
            width = stage.n_channels
        self.msfa = Fusion(spec, sum(stage.n_channels for stage in spec.stages[-2:]))

    def forward(self, pictures: Tensor) -> Tensor:
        x, ends = self.conv_stem(pictures), []
        for stage in self.blocks:
            x = stage(x)
            ends.append(x)
        return self.msfa(*ends[-2:]).flatten(2).transpose(1, 2)

    def example(self, n: int) -> Tensor:
        """n pictures to run without data, as small as can be."""
        weight = next(self.parameters())
        return torch.zeros(n, 3, self.spec.whole, self.spec.whole, device=weight.device, dtype=weight.dtype)


def _blocks(spec: MobileStage, d_in: int) -> list[nn.Module]:
    """Of one stage; the first halves the sides."""
    made: list[nn.Module] = []
    width = spec.n_channels
    for kernel, expansion in spec.edges:
        made.append(Edge(d_in, width, kernel, expansion, stride=1 if made else 2))
        d_in = width
    for start, middle, expansion in spec.inverted:
        made.append(Inverted(d_in, width, start, middle, expansion, stride=1 if made else 2))
        d_in = width
    for _ in range(spec.pairs):
        made += [MobileAttention(spec), Inverted(width, width, 0, 0, 2)]
    return made


class MapNorm(nn.Module):
    """RMSNorm of each place's channels, x [n, channels, rows, columns], in the format of x."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(1, keepdim=True) + 1e-6) * self.weight.reshape(1, -1, 1, 1)


class SameConvolution(nn.Conv2d):
    """A convolution without zeros of its own: where it halves the sides they stand around a copy of what it reads, one
    more below and on the right where their number is odd."""

    def __init__(
        self, d_in: int, d_out: int, kernel: int, stride: int = 1, groups: int = 1, bias: bool = False
    ) -> None:
        around = kernel // 2 if stride == 1 else 0
        super().__init__(d_in, d_out, kernel, stride, around, groups=groups, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        if self.stride[0] > 1:
            zeros = self.kernel_size[0] - self.stride[0]
            before, after = zeros // 2, zeros - zeros // 2
            x = F.pad(x, (before, after, before, after))
        return super().forward(x)


class Convolved(nn.Module):
    """A convolution, its norm and its activation."""

    def __init__(
        self, d_in: int, d_out: int, kernel: int, stride: int = 1, groups: int = 1, act: bool = True, bias: bool = False
    ) -> None:
        super().__init__()
        self.conv = SameConvolution(d_in, d_out, kernel, stride, groups, bias)
        self.bn, self.act = MapNorm(d_out), act

    def forward(self, x: Tensor) -> Tensor:
        x = self.bn(self.conv(x))
        return F.gelu(x, approximate="tanh") if self.act else x


class LayerScale(nn.Module):
    """Times a learned number for each channel."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.full((width,), 1e-5))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gamma.view(1, -1, 1, 1)


class Edge(nn.Module):
    """A kernel of all channels that widens them, and a matrix back."""

    def __init__(self, d_in: int, d_out: int, kernel: int, expansion: int, stride: int) -> None:
        super().__init__()
        self.conv_exp = SameConvolution(d_in, expansion * d_in, kernel, stride)
        self.bn1, self.bn2 = MapNorm(expansion * d_in), MapNorm(d_out)
        self.conv_pwl = SameConvolution(expansion * d_in, d_out, 1)

    def forward(self, x: Tensor) -> Tensor:
        made = F.gelu(self.bn1(self.conv_exp(x)), approximate="tanh")
        made = self.bn2(self.conv_pwl(made))
        return made + x if made.shape == x.shape else made


class Inverted(nn.Module):
    """A kernel of each channel's own, a matrix that widens them, such a kernel again, and a matrix back."""

    def __init__(
        self, d_in: int, d_out: int, start: int, middle: int, expansion: int, stride: int = 1, alone: bool = False
    ) -> None:
        super().__init__()
        inner = expansion * d_in
        if start:
            self.dw_start = Convolved(d_in, d_in, start, groups=d_in, act=False)
        self.pw_exp = Convolved(d_in, inner, 1)
        if middle:
            self.dw_mid = Convolved(inner, inner, middle, stride, groups=inner)
        self.pw_proj = Convolved(inner, d_out, 1, act=False)
        if not alone:
            self.layer_scale = LayerScale(d_out)
        self.start, self.middle, self.alone = bool(start), bool(middle), alone

    def forward(self, x: Tensor) -> Tensor:
        made = self.dw_start(x) if self.start else x
        made = self.pw_exp(made)
        made = self.pw_proj(self.dw_mid(made) if self.middle else made)
        if self.alone:
            return made
        made = self.layer_scale(made)
        return made + x if made.shape == x.shape else made


class MobileAttention(nn.Module):
    """Queries of all places and heads, and keys and values that all heads share."""

    def __init__(self, spec: MobileStage) -> None:
        super().__init__()
        width = spec.n_channels
        self.n_heads, self.d_head = spec.n_heads, spec.d_head
        self.norm, self.attn = MapNorm(width), nn.Module()
        self.attn.query, self.attn.output = nn.Module(), nn.Module()
        self.attn.query.proj = SameConvolution(width, spec.n_heads * spec.d_head, 1)
        self.attn.key, self.attn.value = (_shared(spec, width) for _ in range(2))
        self.attn.output.proj = SameConvolution(spec.n_heads * spec.d_head, width, 1)
        self.layer_scale = LayerScale(width)

    def forward(self, x: Tensor) -> Tensor:
        read, (n, _, rows, columns) = self.norm(x), x.shape
        q = self.attn.get_submodule("query.proj")(read).reshape(n, self.n_heads, self.d_head, -1)
        k, v = (self.attn.get_submodule(name)(read).flatten(2).transpose(1, 2)[:, None] for name in ("key", "value"))
        made = F.scaled_dot_product_attention(q.transpose(-1, -2).contiguous(), k.contiguous(), v.contiguous())
        made = made.transpose(1, 2).reshape(n, rows, columns, -1).permute(0, 3, 1, 2).contiguous()
        return self.layer_scale(self.attn.get_submodule("output.proj")(made)) + x


def _shared(spec: MobileStage, width: int) -> nn.Module:
    """Of keys or values."""
    made = nn.Sequential()
    if spec.narrowing:
        made.add_module("down_conv", SameConvolution(width, width, spec.narrowing, 2, groups=width))
        made.add_module("norm", MapNorm(width))
    made.add_module("proj", SameConvolution(width, spec.d_head, 1))
    return made


class Fusion(nn.Module):
    """Two maps side by side, the smaller one's vectors four times each, through a block and a mean."""

    def __init__(self, spec: MobileNet, width: int) -> None:
        super().__init__()
        self.ffn = Inverted(width, spec.d_out, 0, 0, spec.expansion, alone=True)
        self.norm, self.left = MapNorm(spec.d_out), spec.left

    def forward(self, large: Tensor, small: Tensor) -> Tensor:
        x = self.ffn(torch.cat([large, F.interpolate(small, size=large.shape[-2:], mode="nearest")], dim=1))
        kernel = (x.shape[2] // self.left, x.shape[3] // self.left)
        return self.norm(x if kernel == (1, 1) else F.avg_pool2d(x, kernel, kernel))
