"""Blocks: each lays down the ops of one piece of a layer. Three explicit tables say which description is laid how."""

from __future__ import annotations

from collections.abc import Callable

from calc.blocks.attention import attention
from calc.blocks.embedding import tokens
from calc.blocks.mlp import mlp
from calc.blocks.moe import moe
from calc.op import Part
from calc.sizes import Size
from calc.spec import Attention, Embedding, Mlp, Moe, Node

MIXERS: dict[type[Node], Callable[..., Part]] = {Attention: attention}
"""(spec, d_model, load) -> the part that mixes tokens; its name is the path of its weights."""

CHANNELS: dict[type[Node], Callable[..., Part]] = {Mlp: mlp, Moe: moe}
"""(spec, d_model, tokens) -> the part that acts on each token alone."""

FRONTS: dict[type[Node], Callable[..., tuple[Part, Size]]] = {Embedding: tokens}
"""(spec, vocab_size, d_model, load) -> (the part, the vectors it gives for each sequence)."""

__all__ = ["CHANNELS", "FRONTS", "MIXERS"]
