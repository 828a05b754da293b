"""Being ported."""

from __future__ import annotations

from calc.errors import Refused


def convolution_module(t, spec, x, load):
    raise Refused("model", "ported", "conformer.py")
