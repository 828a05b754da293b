"""Towers: stacks beside the main one, which read pictures, sounds or an encoder's tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn

from calc.spec import Tower
from reference_models.blocks.linear import clip
from reference_models.blocks.projector import Projection
from reference_models.layer_pass import run_layer
from reference_models.stack import StackOfLayers
from reference_models.stages import run_stages
from reference_models.step import Step


class TowerOfLayers(StackOfLayers):
    """A stack beside the main one; it keeps no cache. d_reader: width of the stack that reads its projectors."""

    def __init__(self, spec: Tower, vocab_size: int | None, d_reader: int) -> None:
        super().__init__(spec, vocab_size)
        self.tower = spec
        if spec.clipped:
            clip(self.layers)
        width = spec.d_model
        if spec.stages is not None:
            width *= 1 + len(spec.stages.beside)
        for each in spec.projectors:
            made = [Projection(each, width, d_reader) for _ in each.depths or (0,)]
            self.add_module(each.name, nn.ModuleList(made) if each.depths else made[0])

    def forward(
        self, inputs: Tensor, step: Step, place: Callable[[Tensor], Tensor] = lambda x: x
    ) -> tuple[Tensor, Tensor, list[Tensor]]:
        """(the layers' result after the final norm, what the last dense layer or projector behind it makes of that,
        what projectors make of the layers that they read). place: puts what stands among its first vectors there."""
        x, step = self.embed(inputs, step)
        x = place(x)
        if any(each.depths for each in self.tower.projectors):
            step = replace(step, need_hidden=True, hidden=[])
        if self.tower.stages is not None:
            x = run_stages(self, self.tower.stages, x, step)
        else:
            x = self.run(x, step) if self.tower.unread is None else self._run_unread(x, step, self.tower.unread)
        results = self.read(x, step.keep)
        end, deep = results[self.spec.heads[-1].name] if results else x, []
        if self.tower.pool is not None:
            end = self.pool(x, step)
        for each in self.tower.projectors:
            module = self.get_submodule(each.name)
            if isinstance(module, nn.ModuleList):
                deep += [one(step.hidden[depth + 1], step.grid) for one, depth in zip(module, each.depths, strict=True)]
            else:
                end = module(x, step.grid)
        return x, end, deep

    def _run_unread(self, x: Tensor, step: Step, unread: int) -> Tensor:
        """What the last layer that is read gives; those behind it and the norm run, and their result is dropped."""
        steps = [replace(step, layer=i, n_layers=len(self.layers)) for i in range(len(self.layers))]
        passes = list(zip(self.layers, steps, strict=True))
        read = len(passes) - unread
        for layer, own in passes[:read]:
            x = run_layer(layer, x, own, None, None)
        with torch.no_grad():
            behind = x
            for layer, own in passes[read:]:
                behind = run_layer(layer, behind, own, None, None)
            self.end(behind)
        return x
