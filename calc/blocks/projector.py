"""Being ported."""

from __future__ import annotations

from calc.errors import Refused


def projector(t, spec, x, d_reader, load, grid):
    raise Refused("model", "ported", "projector.py")
