"""Stacks of layers: what turns an input into vectors, the layers, and what reads the last of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from calc.spec import Embedding, FunnelAttention, Mla, Stack, Tiles
from reference_models.ahead import ahead_of_groups
from reference_models.blocks import FRONTS
from reference_models.blocks.altup import IntoStreams, OutOfStreams
from reference_models.blocks.block_attention import add_tables, block_bias
from reference_models.blocks.disentangled import DistanceVectors
from reference_models.blocks.embedding import Dense
from reference_models.blocks.funnel_tables import began
from reference_models.blocks.gated_streams import GatedCollapse
from reference_models.blocks.linear import NormLayer, wide
from reference_models.blocks.moe import MixtureOfExperts
from reference_models.blocks.page_attention import add_page_tables, page_bias
from reference_models.blocks.per_layer import LayerInputs
from reference_models.blocks.pooling import Pool
from reference_models.blocks.pyramid import Maps, OneMap
from reference_models.blocks.relative import RelativeBias
from reference_models.blocks.segmentation import Masks
from reference_models.blocks.streams import Collapse
from reference_models.blocks.tiles import Between
from reference_models.cache import Cache
from reference_models.layer_pass import run_layer
from reference_models.stack_layers import borrows, layers_of
from reference_models.step import Step
from reference_models.support import module_of, supported

STACK = (
    *("d_model", "embedding", "layers", "schedule", "final_norm", "heads", "per_layer", "projectors", "clipped"),
    *("unread", "stages", "n_streams", "stream_mixing", "altup", "among_tokens", "pool", "reader"),
    *("name", "family", "vocab_size", "max_seq_len", "head", "encoder", "vision", "audio", "contrast", "mtp"),
    *("patcher", "speech_encoder", "speech", "eyes", "skipped"),
    *("shipped", "notes", "pyramid", "neck", "mask_decoder", "every"),
)
"""Fields of the specs that are computed here; `mtp`, the modules that predict further tokens, is built where `build` is
asked for it: `calc` counts them apart, and released models leave them out."""


class StackOfLayers(nn.Module):
    """Front, layers, final norm and the dense layers behind it."""

    # Any: nn.Module knows its children only at run time. `layers` is a ModuleList of Layer.
    embedding: Any
    layers: Any
    between: Any
    tuned: Tensor

    def __init__(self, spec: Stack, vocab_size: int | None, d_source: int = 0) -> None:
        super().__init__()
        supported(spec, *STACK)
        self.spec = spec
        self.embedding = module_of(FRONTS, spec.embedding)(spec.embedding, vocab_size, spec.d_model)
        if spec.relative_bias is not None:
            self.relative_bias = RelativeBias(*spec.relative_bias)
        if spec.in_blocks is not None:
            add_tables(self, spec.in_blocks)
        if spec.on_page is not None:
            add_page_tables(self, spec.on_page)
        if spec.distances is not None:
            self.distances = DistanceVectors(spec.distances[0], spec.d_model)
            if spec.distances[0].normed:
                self.distances_norm = NormLayer(spec.distances[1], (spec.d_model,))
        self.layers = nn.ModuleList(layers_of(spec, d_source))
        self._add_merges(spec)
        # Read here, since torch.compile cannot ask a description for what it may not have.
        self.vectors = getattr(spec.embedding, "vectors", 1)
        self.lends = any(borrows(node) for layer in self.layers for node in (*layer.group.mixers, layer.group.channel))
        mixers = (mixer for group in spec.layers for mixer in group.mixers)
        self.tunes = next((m.d_rope for m in mixers if isinstance(m, Mla) and m.d_rope and m.rope.tuned), None)
        if self.tunes is not None:
            self.register_buffer("tuned", torch.zeros(self.tunes // 2))
        for module in self.layers.modules():
            if isinstance(module, MixtureOfExperts) and module.spec.by_token and vocab_size is not None:
                module.add_table(vocab_size)
        if spec.n_streams is not None:
            collapse = Collapse if spec.stream_mixing.rank is None else GatedCollapse
            self.collapse = collapse(spec.n_streams, spec.stream_mixing, spec.d_model)
        if spec.altup is not None:
            self.altup_in = IntoStreams(spec.altup, spec.d_model)
            self.altup_out = OutOfStreams(spec.altup, spec.d_model)
        if spec.per_layer is not None:
            self.per_layer = LayerInputs(spec.per_layer, spec.layers[0].norm, spec.d_model, len(self.layers))
        if spec.final_norm is not None:
            self.final_norm = NormLayer(spec.final_norm, (spec.end_width,))
        if spec.stages is not None and isinstance(spec.embedding, Tiles):
            self.between = Between(spec.stages, spec.embedding, spec.d_model)
        if spec.pyramid is not None:
            self.pyramid = Maps(spec.pyramid, spec.stage_widths)
        if spec.neck is not None:
            self.neck = OneMap(spec.neck, spec.end_width)
        of_maps = spec.pyramid or spec.neck
        if spec.mask_decoder is not None and of_maps is not None:
            self.mask_decoder = Masks(spec.mask_decoder, of_maps.d_out, spec.embedding)
        if spec.pool is not None:
            self.pool = Pool(spec.pool, spec.d_model)
        for each in spec.heads:
            self.add_module(each.name, Dense(each, spec.end_width))

    def _add_merges(self, spec: Stack) -> None:
        """What stands ahead of layers that read fewer and wider vectors; `ahead`: the number of the first of these."""
        merges, names = ahead_of_groups(spec), [layer.group.name for layer in self.layers]
        self.ahead = {names.index(name): name for name in merges}
        kinds = {"patches": "patched", "shortened": "shortened"}
        found = (name for name, field in kinds.items() if any(getattr(each, field) for each in spec.layers))
        self.ahead_of = next(found, "merges")
        if merges:
            self.add_module(self.ahead_of, merges)

    def embed(self, inputs: Tensor, step: Step, place: Callable[[Tensor], Tensor] | None = None) -> tuple[Tensor, Step]:
        """The first vectors, and the step as the layers see it: a front may give more vectors than it read, or fewer.
        place: puts what towers gave among them.

        Errors: ValueError for padding that is not told for every vector.
        """
        inputs, step = self._filled(inputs, step)
        x = self.embedding(inputs, step)
        group = self.spec.layers[0]
        if group.residual_dropout and group.outer_dropout != "none":
            x = F.dropout(x, step.dropout)
        if isinstance(self.spec.embedding, Embedding):
            step = replace(step, tokens=inputs)
        x = x if place is None else place(x)
        if self.spec.per_layer is not None:
            step = replace(step, own_input=self.per_layer(inputs, x))
        if x.shape[1] != step.positions.shape[-1]:
            step = self._renumbered(x, step)
        if step.keep is not None and step.keep.shape[-1] != step.start + x.shape[1]:
            expected, found = step.start + x.shape[1], step.keep.shape[-1]
            raise ValueError(f"keep: expected {expected} places, one for each vector of the layers, found {found}")
        return x, step

    def _filled(self, inputs: Tensor, step: Step) -> tuple[Tensor, Step]:
        """Tokens up to the multiple that the front asks for, and the step that hides those that are none."""
        multiple = getattr(self.spec.embedding, "multiple", None)
        fill = -inputs.shape[1] % multiple if multiple is not None and self._fills(inputs.shape[1]) else 0
        if fill == 0:
            return inputs, step
        there = torch.ones_like(inputs, dtype=torch.bool) if step.keep is None else step.keep
        positions = torch.arange(inputs.shape[1] + fill, device=inputs.device)[None]
        if getattr(self.spec.embedding, "position_offset", 0):
            # What fills takes the padding token's row, the one before the first position's.
            positions = positions.masked_fill(positions >= inputs.shape[1], -1)
        return F.pad(inputs, (0, fill)), replace(step, keep=F.pad(there, (0, fill)), positions=positions, filled=fill)

    def _cut(self, x: Tensor, step: Step) -> Tensor:
        """x [batch, n, d_model] without what filled it up, in memory of its own where anything has."""
        if step.filled == 0:
            return x
        step.uncut.append(x)
        return F.pad(x, (0, 0, 0, -step.filled))

    def _fills(self, tokens: int) -> bool:
        """Whether the front fills texts of so many tokens up."""
        least = getattr(self.spec.embedding, "beyond", None)
        return getattr(self.spec.embedding, "multiple", None) is not None and (least is None or tokens > least)

    def _renumbered(self, x: Tensor, step: Step) -> Step:
        """The step of as many vectors as x [batch, n, d_model] holds; padding is told for steps of a trajectory."""
        vectors = self.vectors
        start, keep = step.start * vectors, step.keep
        if keep is not None and vectors > 1:
            keep = keep.repeat_interleave(vectors, 1)
        positions = torch.arange(start, start + x.shape[1], device=x.device)[None]
        return replace(step, start=start, keep=keep, positions=positions)

    def run(self, x: Tensor, step: Step, cache: Cache | None = None) -> Tensor:
        """x [batch, n, d_model] through all layers and the final norm."""
        if self.spec.n_streams is not None:
            # As transformers lays them out: copies, each a stream's own.
            x = x[:, :, None].expand(-1, -1, self.spec.n_streams, -1).contiguous()
        if self.spec.altup is not None:
            x = self.altup_in(x)
        if getattr(self.spec.embedding, "wide", False):
            x, step = wide(x), replace(step, narrow=x.dtype)
        if step.need_hidden:
            step.hidden.append(x)
        if self.spec.relative_bias is not None:
            step = replace(step, relative=self._distances(x, step) if cache is None else self.relative_bias)
        if self.spec.in_blocks is not None:
            added = block_bias(self, self.spec.in_blocks, x, step)
            step = replace(step, relative=lambda queries, keys, *, causal: added)
        if self.spec.on_page is not None:
            numbers = page_bias(self, self.spec.on_page, step)
            step = replace(step, relative=None if numbers is None else lambda queries, keys, *, causal: numbers)
        if self.spec.distances is not None:
            vectors = self.distances(x.shape[1])
            step = replace(step, distances=self.distances_norm(vectors) if self.distances.spec.normed else vectors)
        if self.lends:
            step = replace(step, lent={})
        if self.tunes is not None:
            step = replace(step, tuned=self.tuned)
        if any(group.shared_block is not None or group.beside is not None for group in self.spec.layers):
            step = replace(step, embedded=x)
        if isinstance(first := self.spec.layers[0].mixer, FunnelAttention):
            step = replace(step, blocks=began(first, x, step.token_types, step.dropout))
        nothing: Sequence[None] = [None] * len(self.layers)
        mixers, crosses = (nothing, nothing) if cache is None else (cache.mixers, cache.cross)
        for i, (layer, mixer, cross) in enumerate(zip(self.layers, mixers, crosses, strict=True)):
            if i in self.ahead:
                if self.spec.pyramid is not None:
                    step.ends.append((x, step.grid))
                x, step = self.get_submodule(f"{self.ahead_of}.{self.ahead[i]}")(x, step)
            own = replace(step, layer=i, n_layers=len(self.layers))
            if step.own_input is not None:
                own = replace(own, own_input=step.own_input[:, :, i])
            x = run_layer(layer, x, own, mixer, cross)
            if step.blocks is not None:
                step = replace(step, blocks=step.blocks.behind())
            if step.image_at is not None and i < len(step.deep):
                x = x + torch.zeros_like(x).masked_scatter(step.image_at[..., None], step.deep[i].to(x.dtype))
            if step.need_hidden:
                step.hidden.append(x)
        if self.spec.pyramid is not None:
            step.ends.append((x, step.grid))
        x = x if self.spec.every is None else self._thinned(x, step, self.spec.every)
        x, group = self._cut(self.end(x), step), self.spec.layers[0]
        return F.dropout(x, step.dropout) if group.residual_dropout and group.outer_dropout == "both" else x

    def _thinned(self, x: Tensor, step: Step, every: int) -> Tensor:
        """Every so many-th vector of x [batch, n, d_model], zeros at padding."""
        keep = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device) if step.keep is None else step.keep
        return x[:, ::every].masked_fill((~keep)[:, ::every, None], 0.0)

    def _distances(self, x: Tensor, step: Step) -> Callable[..., Tensor]:
        """What the table says of the tokens of one whole sequence, looked up once for all layers."""
        places = torch.arange(step.start, step.start + x.shape[1], device=x.device)
        causal = next(layer.group.mixer.causal for layer in self.layers)
        found = self.relative_bias(places, places, causal=causal)
        if self.spec.gates_bias:
            found = found.repeat(len(x), 1, 1, 1)
        return lambda queries, keys, *, causal: found

    def end(self, x: Tensor) -> Tensor:
        """What stands behind the last layer: one vector of several streams, where there are such, and the norm."""
        if self.spec.n_streams is not None:
            x = self.collapse(x)
        if self.spec.altup is not None:
            x = self.altup_out(x)
        x = x.to(self.embedding.token.weight.dtype) if getattr(self.spec.embedding, "wide", False) else x
        return x if self.spec.final_norm is None else self.final_norm(x)

    def read(
        self, x: Tensor, keep: Tensor | None = None, text: int | None = None, uncut: Sequence[Tensor] = ()
    ) -> dict[str, Tensor]:
        """What each dense layer behind the stack makes of x, by name. keep: False at padding, as in Step. text: how
        many of the first vectors are a text's, where a picture stands behind it. uncut: x with what filled it up, where
        anything has: the first vectors are a view of that."""
        results: dict[str, Tensor] = {}
        # What fills a text up stands behind it; what is cached, before it.
        filled = getattr(self.spec.embedding, "multiple", None) is not None
        first = 0 if keep is None or filled else keep.shape[1] - x.shape[1]
        new = None if keep is None else keep[:, first : first + x.shape[1]]
        for each in self.spec.heads:
            if each.idle:
                continue
            given, there = x if each.reads is None else results[each.reads], new
            if uncut and given is x and each.per == "sequence" and each.pool == "first":
                given, there = uncut[-1], keep
            results[each.name] = self.get_submodule(each.name)(given[:, :text] if each.per == "text" else given, there)
        return results
