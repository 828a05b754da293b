"""One layer: its blocks, with the norms where the placement puts them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from calc.spec import AltUp, LayerGroup, Mlp, Moe, PerLayerInputs, Residual
from reference_models.blocks import CHANNELS, MIXERS
from reference_models.blocks.altup import Laurel
from reference_models.blocks.byte_patches import AttentionOfPatches
from reference_models.blocks.convolution import ConformerConvolution, ConvolutionBeside
from reference_models.blocks.cross_attention import CrossAttention
from reference_models.blocks.linear import BlockScale, Cut, NormLayer, scaled
from reference_models.blocks.per_layer import LayerInput
from reference_models.blocks.shared_block import SharedBlock
from reference_models.blocks.tiles import Gate
from reference_models.cache import Fixed, LayerCache, Several
from reference_models.layer_streams import alternating, in_streams
from reference_models.step import Step
from reference_models.support import module_of, supported

GROUP = (
    *("name", "count", "mixer", "cross", "channel", "norm", "placement", "after", "shared", "residual_scale"),
    *("residual", "block_scale", "kept_scale", "shifted", "gates", "shared_block", "laurel", "merge", "ngrams"),
    *("patched", "unpatched", "of_patches", "shortened", "halved", "upsampled", "again"),
    *(
        "macaron",
        "macaron_share",
        "cut",
        "convolution",
        "beside",
        "out_norm",
        "out_scale",
        "first_norm",
        "residual_dropout",
        "outer_dropout",
    ),
)
"""Fields of the spec that are computed here."""


class Layer(nn.Module):
    """Mixer, attention over a source, channel mixer: those that the group has, each with the norms of its placement."""

    cross_attention: Any
    ngrams: Any
    shared_block: Any
    out_scale: Tensor

    def __init__(self, group: LayerGroup, d_model: int, d_source: int) -> None:
        super().__init__()
        supported(group, *GROUP)
        self.group = group
        self.blocks: list[str] = []
        self.streams = False
        self.alternates: AltUp | None = None
        self.shifts = isinstance(group.channel, Mlp) and group.channel.shift
        self.lends_late = isinstance(group.channel, Moe) and group.channel.late
        self.joins_caches = self.shifts or group.shared_block is not None or group.ngrams is not None
        if group.of_patches is not None:
            self.patch_attention = AttentionOfPatches(group.of_patches, d_model)
        if group.macaron and group.channel is not None:
            self._add("macaron", module_of(CHANNELS, group.channel)(group.channel, d_model), d_model, "macaron_norm")
        if group.shared_block is not None:
            self.shared_block = SharedBlock(group.shared_block, group.norm, d_model)
        if group.mixer is not None:
            mixer = module_of(MIXERS, group.mixer)(group.mixer, d_model)
            self._add(mixer.name, mixer, d_model, f"{mixer.name}_norm")
        if group.laurel is not None:
            self.laurel = Laurel(group.laurel, group.norm, d_model)
        if group.cross is not None:
            cross = CrossAttention(group.cross, d_model, d_source)
            self._add("cross_attention", cross, d_model, "cross_attention_norm")
        if group.convolution is not None:
            self._add("convolution", ConformerConvolution(group.convolution, d_model), d_model, "convolution_norm")
        if group.channel is not None:
            channel = module_of(CHANNELS, group.channel)(group.channel, d_model)
            self._add(channel.name, channel, d_model, "channel_norm")
        if group.beside is not None:
            self.beside = ConvolutionBeside(group.beside, d_model)
            self.beside_norm = NormLayer(group.norm, (d_model,))
        if group.cut is not None:
            self.cut = nn.ModuleDict({name: Cut(group.cut) for name in (*self.blocks, "out") if name != "convolution"})
        if group.out_norm:
            self.out_norm = NormLayer(group.norm, (d_model,))
        if group.out_scale:
            self.register_buffer("out_scale", torch.ones(1))

    def forward(
        self,
        x: Tensor,
        step: Step,
        mixer: LayerCache | None = None,
        cross: LayerCache | None = None,
        late: Tensor | None = None,
    ) -> Tensor:
        """x [batch, seq, d_model] -> the same shape. mixer, cross: what this layer keeps, or None. late: what experts
        of the layer before give."""
        if self.group.of_patches is not None and step.patches is not None:
            x = self.patch_attention(x, *step.patches, step)
        if self.alternates is not None:
            return alternating(self, self.alternates, x, step, mixer, cross)
        if self.group.placement.startswith("parallel"):
            step = replace(step, stream=x)
            first, second = self.blocks
            a = self.normed(first, "norm", x)
            b = a if self.group.placement == "parallel" else self.normed(second, "norm", x)
            both = self.run(first, a, step, mixer) + self.run(second, b, step, mixer)
            x = x + scaled(both, self.group.residual_scale)
        else:
            if self.group.ngrams is not None:
                x = self.ngrams(x, step, self._part_of(mixer, "ngrams"))
            block = partial(in_streams, self) if self.streams else self.run_block
            for name in self.blocks:
                x = block(name, x, replace(step, stream=x), cross if name == "cross_attention" else mixer)
        x = x if late is None else x + late
        if self.group.beside is not None:
            dropout = step.dropout if self.group.residual_dropout else 0.0
            x = self.beside_norm(x + self.beside(step.embedded, dropout))
        if self.group.cut is not None:
            x = self.cut["out"](x)
        if self.group.out_norm:
            x = self.out_norm(x)
        if step.own_input is not None:
            x = x + self.per_layer_post_norm(self.per_layer(x, step.own_input))
        return x * self.out_scale if self.group.out_scale else x

    def read_own(self, spec: PerLayerInputs, d_model: int) -> None:
        """Give this layer the block that reads its own input."""
        self.per_layer = LayerInput(spec, d_model)
        self.per_layer_post_norm = NormLayer(self.group.norm, (d_model,))

    def new_cache(self, length: int | None) -> LayerCache | None:
        """What the mixer keeps, and beside it a block ahead of it, and a channel mixer that keeps a token; empty."""
        mixer = None if self.group.mixer is None else self._submodule(self.mixer).new_cache(length)
        others: dict[str, LayerCache] = {"channel": Fixed()} if self.shifts else {}
        if self.group.shared_block is not None:
            others["shared_block"] = self.shared_block.attention.new_cache(length)
        if self.group.ngrams is not None:
            others["ngrams"] = Fixed()
        if not others:
            return mixer
        return Several(**others) if mixer is None else Several(mixer=mixer, **others)

    def new_cross_cache(self) -> LayerCache | None:
        """What the attention over a source keeps, still empty."""
        return None if self.group.cross is None else self.cross_attention.new_cache()

    def run_block(self, name: str, x: Tensor, step: Step, cache: LayerCache | None) -> Tensor:
        """x [batch, seq, d_model] with what one block makes of it, norms where the placement puts them."""
        placement = self.group.placement
        normed = placement in ("pre", "sandwich") and (self.group.first_norm or name != self.blocks[0])
        cut = self.cut[name] if self.group.cut is not None and name in self.cut else None
        if self.group.cut is not None and cut is None:
            there = torch.ones(x.shape[:2], device=x.device) if step.keep is None else step.keep
            x = x * there[..., None].to(x.dtype)
        read = x if cut is None else cut(x)
        if self.group.shared_block is not None and name == self.mixer:
            read = x + self.shared_block(x, step, self._part_of(cache, "shared_block"))
        inner = self.normed(name, "norm", step.narrowed(read)) if normed else x
        out = self.run(name, inner, step, cache)
        out = out if cut is None else cut(out)
        if self.group.block_scale:
            out = self.get_submodule(f"{self._stem(name)}_scale")(out)
        if self.group.gates:
            out = self.get_submodule(f"{self._stem(name)}_gate")() * out
        behind = (self.group.after == "all" or name == self.channel) and (self.group.cut is None or cut is not None)
        if placement in ("output", "sandwich") and behind:
            out = self.normed(name, "post_norm", out)
        # Two feed-forward blocks around the others do one's work, half each (Gulati et al. 2020, equation 1).
        half = self.group.macaron and name in ("macaron", self.channel)
        out = scaled(self.group.macaron_share * out if half else out, self.group.residual_scale)
        x = (
            self._kept(name, x) + out
            if self.group.residual is None
            else self._joined(name, inner if self.group.residual.normed else x, out)
        )
        if self.group.laurel is not None and name == self.mixer:
            x = self.laurel(x, inner)
        return self.normed(name, "norm", x) if placement == "post" else x

    def _kept(self, name: str, x: Tensor) -> Tensor:
        """What a block's result is added to."""
        return self.get_submodule(f"{self._stem(name)}_kept")(x) if self.group.kept_scale else x

    def _joined(self, name: str, x: Tensor, out: Tensor) -> Tensor:
        """Both with their factors."""
        residual = self.group.residual or Residual()
        if name == self.channel:
            return residual.channel_kept * x + residual.channel_added * out
        return residual.mixer_kept * x + residual.mixer_added * out

    def run(self, name: str, x: Tensor, step: Step, cache: LayerCache | None) -> Tensor:
        """What one block makes of x [batch, seq, d_model], dropped out, and nothing added to it yet."""
        block = self._submodule(name)
        if self.joins_caches and name != "cross_attention":
            cache = self._part_of(cache, "channel" if name == self.channel else "mixer")
        keeps = name in (self.mixer, "cross_attention") or (self.shifts and name == self.channel)
        out = block(x, step, cache) if keeps else block(x, step)
        return F.dropout(out, step.dropout) if self.group.residual_dropout else out

    def _part_of(self, cache: LayerCache | None, name: str) -> LayerCache | None:
        return cache.parts.get(name) if isinstance(cache, Several) else None

    def _submodule(self, name: str) -> Any:
        return self.get_submodule(name)

    def normed(self, block: str, which: str, x: Tensor) -> Tensor:
        """x through a block's `norm` or `post_norm`."""
        return self.get_submodule(f"{self._stem(block)}_{which}")(x)

    def drop_norm(self, block: str) -> None:
        """Take away the norm ahead of a block."""
        delattr(self, f"{self._stem(block)}_norm")

    def _stem(self, block: str) -> str:
        return "channel" if block == self.channel else block

    @property
    def mixer(self) -> str:
        """The name of the mixer, the first of the blocks but for a channel mixer ahead of it."""
        return self.blocks[1 if self.group.macaron else 0] if self.group.mixer is not None else ""

    @property
    def channel(self) -> str | None:
        """The name of the channel mixer, the last of the blocks."""
        return None if self.group.channel is None else self.blocks[-1]

    def _add(self, name: str, block: nn.Module, d_model: int, norm: str) -> None:
        placement = self.group.placement
        bare = not self.group.first_norm and not self.blocks
        if placement not in ("output",) and not (placement == "parallel" and self.blocks) and not bare:
            module = self.group.convolution if self.group.cut is not None and name == "convolution" else None
            own = None if module is None else module.norm
            self.add_module(norm, NormLayer(own or self.group.norm, (d_model,)))
        self.add_module(name, block)
        if self.group.block_scale:
            self.add_module(norm.replace("_norm", "_scale"), BlockScale(d_model, shifted=self.group.shifted))
        if self.group.kept_scale:
            self.add_module(norm.replace("_norm", "_kept"), BlockScale(d_model, shifted=self.group.shifted))
        if self.group.gates:
            self.add_module(norm.replace("_norm", "_gate"), Gate())
        self.blocks.append(name)
        behind = self.group.after == "all" or norm == "channel_norm"
        behind = behind and (self.group.cut is None or name != "convolution")
        if placement in ("output", "sandwich") and behind:
            self.add_module(norm.replace("_norm", "_post_norm"), NormLayer(self.group.norm, (d_model,)))
