"""Being ported."""

from __future__ import annotations

from calc.errors import Refused


def spread(t, spec, x):
    raise Refused("model", "ported", "streams.py")


def collapse(t, spec, x):
    raise Refused("model", "ported", "streams.py")
