"""What a user may describe: frozen, strict pydantic nodes, one file a kind."""

from __future__ import annotations

from calc.spec.attention import Attention, Norm, QkNorm
from calc.spec.channels import Activation, Mlp, Moe
from calc.spec.fields import Node
from calc.spec.fronts import Embedding
from calc.spec.heads import Head, Projection
from calc.spec.model import LayerGroup, ModelSpec, Placement, Stack, Tower
from calc.spec.shorthand import Shorthand

__all__ = [
    "Activation",
    "Attention",
    "Embedding",
    "Head",
    "LayerGroup",
    "Mlp",
    "ModelSpec",
    "Moe",
    "Node",
    "Norm",
    "Placement",
    "Projection",
    "QkNorm",
    "Shorthand",
    "Stack",
    "Tower",
]
