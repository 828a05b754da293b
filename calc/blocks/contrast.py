"""Being ported."""

from __future__ import annotations

from calc.errors import Refused


def contrast(t, spec, load):
    raise Refused("model", "ported", "contrast.py")
