"""Being ported."""

from __future__ import annotations

from calc.errors import Refused


def layer_inputs(t, spec, x):
    raise Refused("model", "ported", "per_layer.py")


def layer_input(t, inputs, x, norm):
    raise Refused("model", "ported", "per_layer.py")
