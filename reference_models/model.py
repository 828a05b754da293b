"""The wiring: layers with their norms, stacks, towers, and a whole model built from a `ModelSpec`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from calc.spec import LayerGroup, ModelSpec, Projection, Stack, Tower
from reference_models.blocks import CHANNELS, FRONTS, MIXERS
from reference_models.blocks.attention import CrossAttention
from reference_models.blocks.embedding import Dense, LmHead
from reference_models.blocks.linear import NormLayer
from reference_models.blocks.relative import RelativeBias
from reference_models.cache import Cache, LayerCache
from reference_models.step import Checkpointing, Kernel, Step, recomputed
from reference_models.support import supported

GROUP = ("name", "count", "mixer", "cross", "channel", "norm", "placement", "shared", "residual_scale")
STACK = (
    *("d_model", "embedding", "layers", "schedule", "final_norm", "heads"),
    *("name", "family", "vocab_size", "max_seq_len", "head", "encoder", "vision", "notes"),
)
"""Fields of the specs that are computed here."""


def build(spec: ModelSpec, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Model:
    """The model that `spec` describes; its parameters' names and shapes are those of `calc.parameter_shapes(spec)`.

    device: `meta` builds without memory, for counting. Errors: NotImplementedError for a piece that has no module yet.
    """
    with torch.device(device or "cpu"):
        model = Model(spec)
    return model if dtype is None else model.to(dtype)


class Layer(nn.Module):
    """Mixer, attention over a source, channel mixer: those that the group has, each with the norms of its placement."""

    def __init__(self, group: LayerGroup, d_model: int, d_source: int) -> None:
        super().__init__()
        supported(group, *GROUP)
        self.group = group
        self.blocks: list[str] = []
        if group.mixer is not None:
            mixer = _of(MIXERS, group.mixer)(group.mixer, d_model)
            self._add(mixer.name, mixer, d_model, f"{mixer.name}_norm")
        if group.cross is not None:
            self._add("cross_attention", CrossAttention(group.cross, d_model, d_source), d_model, "cross_attention_norm")
        if group.channel is not None:
            channel = _of(CHANNELS, group.channel)(group.channel, d_model)
            self._add(channel.name, channel, d_model, "channel_norm")

    def forward(self, x: Tensor, step: Step, mixer: LayerCache | None = None, cross: LayerCache | None = None) -> Tensor:
        """x [batch, seq, d_model] -> the same shape. mixer, cross: what this layer keeps, or None."""
        if self.group.placement.startswith("parallel"):
            first, second = self.blocks
            a = self._norm(first, "norm", x)
            b = a if self.group.placement == "parallel" else self._norm(second, "norm", x)
            return x + self.group.residual_scale * (self._run(first, a, step, mixer) + self._run(second, b, step, None))
        for name in self.blocks:
            x = self._block(name, x, step, cross if name == "cross_attention" else mixer)
        return x

    def _block(self, name: str, x: Tensor, step: Step, cache: LayerCache | None) -> Tensor:
        placement = self.group.placement
        inner = self._norm(name, "norm", x) if placement in ("pre", "sandwich") else x
        out = self._run(name, inner, step, cache)
        if placement in ("output", "sandwich"):
            out = self._norm(name, "post_norm", out)
        x = x + self.group.residual_scale * out
        return self._norm(name, "norm", x) if placement == "post" else x

    def _run(self, name: str, x: Tensor, step: Step, cache: LayerCache | None) -> Tensor:
        block = self.get_submodule(name)
        return block(x, step) if name == self.channel else block(x, step, cache)

    def _norm(self, block: str, which: str, x: Tensor) -> Tensor:
        return self.get_submodule(f"{self._stem(block)}_{which}")(x)

    def _stem(self, block: str) -> str:
        return "channel" if block == self.channel else block

    @property
    def channel(self) -> str | None:
        """The name of the channel mixer, the last of the blocks."""
        return None if self.group.channel is None else self.blocks[-1]

    def _add(self, name: str, block: nn.Module, d_model: int, norm: str) -> None:
        placement = self.group.placement
        if placement not in ("output",) and not (placement == "parallel" and self.blocks):
            self.add_module(norm, NormLayer(self.group.norm, (d_model,)))
        self.add_module(name, block)
        self.blocks.append(name)
        if placement in ("output", "sandwich"):
            self.add_module(norm.replace("_norm", "_post_norm"), NormLayer(self.group.norm, (d_model,)))


class StackOfLayers(nn.Module):
    """Front, layers, final norm and the dense layers behind it."""

    def __init__(self, spec: Stack, vocab_size: int | None, d_source: int = 0) -> None:
        super().__init__()
        supported(spec, *STACK)
        self.spec = spec
        self.embedding = _of(FRONTS, spec.embedding)(spec.embedding, vocab_size, spec.d_model)
        if spec.relative_bias is not None:
            self.relative_bias = RelativeBias(*spec.relative_bias)
        self.layers = nn.ModuleList(_layers(spec, d_source))
        if spec.final_norm is not None:
            self.final_norm = NormLayer(spec.final_norm, (spec.d_model,))
        for each in spec.heads:
            self.add_module(each.name, Dense(each, spec.d_model))

    def embed(self, inputs: Tensor, step: Step) -> tuple[Tensor, Step]:
        """The first vectors, and the step as the layers see it: a front may give more vectors than it read."""
        x = self.embedding(inputs, step)
        if x.shape[1] == step.positions.shape[-1]:
            return x, step
        start = step.start * getattr(self.spec.embedding, "vectors", 1)
        return x, replace(step, start=start, positions=torch.arange(start, start + x.shape[1], device=x.device)[None])

    def run(self, x: Tensor, step: Step, cache: Cache | None = None) -> Tensor:
        """x [batch, n, d_model] through all layers and the final norm."""
        if step.need_hidden:
            step.hidden.append(x)
        if self.spec.relative_bias is not None:
            step = replace(step, relative=self.relative_bias)
        nothing: Sequence[None] = [None] * len(self.layers)
        mixers, crosses = (nothing, nothing) if cache is None else (cache.mixers, cache.cross)
        for layer, mixer, cross in zip(self.layers, mixers, crosses, strict=True):
            x = _run_layer(layer, x, step, mixer, cross)
            if step.need_hidden:
                step.hidden.append(x)
        return x if self.spec.final_norm is None else self.final_norm(x)

    def read(self, x: Tensor) -> dict[str, Tensor]:
        """What each dense layer behind the stack makes of x, by name."""
        results: dict[str, Tensor] = {}
        for each in self.spec.heads:
            results[each.name] = self.get_submodule(each.name)(_input(each, results, x))
        return results


class TowerOfLayers(StackOfLayers):
    """A stack beside the main one; it keeps no cache."""

    def forward(self, inputs: Tensor, step: Step) -> tuple[Tensor, Tensor]:
        """(the layers' result after the final norm, what the last dense layer behind it makes of that)."""
        x, step = self.embed(inputs, step)
        x = self.run(x, step)
        results = self.read(x)
        return x, results[self.spec.heads[-1].name] if results else x


@dataclass
class Output:
    """logits: [batch, seq, vocab_size], None without a head. last: [batch, n, d_model], after the final norm.

    heads: what each dense layer behind the main stack gives. seen: what the vision tower gives, None without pictures.
    step: what was recorded on the way (maps, losses, hidden).
    """

    logits: Tensor | None
    last: Tensor
    heads: dict[str, Tensor]
    step: Step
    seen: Tensor | None = None

    @property
    def results(self) -> list[Tensor]:
        """Everything that an objective could read."""
        ends = [self.logits, *self.heads.values(), self.seen]
        return [self.last, *(end for end in ends if end is not None)]


class Model(StackOfLayers):
    """The main stack, its head, and the towers beside it."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec, spec.vocab_size, 0 if spec.encoder is None else spec.encoder.d_model)
        self.whole = spec
        for tower in (spec.encoder, spec.vision):
            if tower is not None:
                self.add_module(tower.name, self._tower(tower))
        if spec.head is not None:
            self.lm_head = LmHead(spec.head, spec.embedding, spec.vocab_size, spec.d_model)

    def forward(
        self,
        inputs: Tensor,
        *,
        source: Tensor | None = None,
        images: Tensor | None = None,
        image_at: Tensor | None = None,
        cache: Cache | None = None,
        keep: Tensor | None = None,
        source_keep: Tensor | None = None,
        token_types: Tensor | None = None,
        kernel: Kernel = "eager",
        checkpointing: Checkpointing = "none",
        need_weights: bool = False,
        need_hidden: bool = False,
    ) -> Output:
        """One pass. inputs: what the front reads, tokens [batch, seq] for a language model.

        source: what the encoder reads. images: what the vision tower reads; its vectors take the places of the tokens
        where image_at [batch, seq] is True. cache: from `new_cache`, read and then filled.
        keep [batch, seq], source_keep [batch, n]: False at padding.
        """
        options = {"kernel": kernel, "checkpointing": checkpointing, "need_weights": need_weights}
        if source is not None:
            source, source_keep = self._encode(source, source_keep, options)
        elif cache is not None:
            source_keep = cache.source_keep
        step = self._step(inputs, cache, keep)
        step = replace(step, source=source, source_keep=source_keep, token_types=token_types, **options)
        step.need_hidden = need_hidden
        x, inner = self.embed(inputs, step)
        seen = None if images is None else self._see(images, options)
        if seen is not None and image_at is not None:
            x = x.masked_scatter(image_at[..., None], seen.to(x.dtype))
        x = self.run(x, inner, cache)
        if cache is not None:
            cache.length, cache.keep, cache.source_keep = cache.length + inputs.shape[1], step.keep, source_keep
        logits = None if self.whole.head is None else self.logits(x)
        return Output(logits, x, self.read(x), inner, seen)

    def logits(self, x: Tensor) -> Tensor:
        """x [..., d_model], after the final norm -> [..., vocab_size]."""
        return self.lm_head(x, self.get_parameter("embedding.token.weight"))

    def new_cache(self, length: int | None = None) -> Cache:
        """Empty caches for one batch: they grow (None), or have room for `length` tokens from the start."""
        room = None if length is None else length * getattr(self.spec.embedding, "vectors", 1)
        mixers = [_cache_of(layer, room) for layer in self.layers]
        cross = [layer.cross_attention.new_cache() if layer.group.cross else None for layer in self.layers]
        return Cache(mixers, cross)

    def _tower(self, tower: Tower) -> TowerOfLayers:
        built = TowerOfLayers(tower, self.whole.vocab_size)
        if getattr(tower.embedding, "shared", False):
            built.embedding.token = self.embedding.token
        return built

    def _step(self, inputs: Tensor, cache: Cache | None, keep: Tensor | None) -> Step:
        """Positions and padding of the new inputs, after those that the cache has seen."""
        start, seq = 0 if cache is None else cache.length, inputs.shape[1]
        if keep is None and (cache is None or cache.keep is None):
            return Step(positions=torch.arange(start, start + seq, device=inputs.device)[None], start=start)
        new = torch.ones(len(inputs), seq, dtype=torch.bool, device=inputs.device) if keep is None else keep.bool()
        before = new.new_ones(len(inputs), start) if cache is None or cache.keep is None else cache.keep
        whole = torch.cat([before, new], dim=1)
        return Step(positions=(whole.cumsum(1) - 1).clamp(min=0)[:, start:], start=start, keep=whole)

    def _encode(self, source: Tensor, keep: Tensor | None, options: dict) -> tuple[Tensor, Tensor | None]:
        step = Step(torch.arange(source.shape[1], device=source.device)[None], keep=keep, **options)
        return self.encoder(source, step)[0], keep

    def _see(self, images: Tensor, options: dict) -> Tensor:
        """The vision tower's vectors."""
        return self.vision(images, Step(torch.arange(images.shape[1], device=images.device)[None], **options))[1]


def _layers(spec: Stack, d_source: int) -> list[Layer]:
    """The layers in the order they run; a group that shares its weights is one layer in several places."""
    groups = {group.name: group for group in spec.layers}
    order = spec.schedule or tuple(group.name for group in spec.layers for _ in range(group.count))
    shared: dict[str, Layer] = {}
    made: list[Layer] = []
    for name in order:
        layer = shared.get(name) or Layer(groups[name], spec.d_model, d_source)
        if groups[name].shared:
            shared[name] = layer
        made.append(layer)
    return made


def _run_layer(
    layer: nn.Module, x: Tensor, step: Step, mixer: LayerCache | None, cross: LayerCache | None
) -> Tensor:
    if step.checkpointing not in ("full", "full-early-stop"):
        return layer(x, step, mixer, cross)
    own: list[Step] = []

    def run(x: Tensor) -> Tensor:
        own.append(step.fresh())
        return layer(x, own[-1], mixer, cross)

    x = recomputed(run, x, early_stop=step.checkpointing == "full-early-stop")
    step.take(own[0])
    return x


def _input(each: Projection, results: dict[str, Tensor], x: Tensor) -> Tensor:
    return x if each.reads is None else results[each.reads]


def _cache_of(layer: nn.Module, length: int | None) -> LayerCache | None:
    mixer = None if layer.group.mixer is None else layer.get_submodule(layer.blocks[0])
    return None if mixer is None else mixer.new_cache(length)


def _of(table: dict, node: object) -> type[nn.Module]:
    if type(node) not in table:
        raise NotImplementedError(f"{type(node).__name__}: no module yet; reference_models/README.md says how to add one")
    return table[type(node)]
