"""With which engine, on which device and in which format a model may be served: all that were asked for and start."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

from calc.errors import Refused
from calc.plan.serving_plan import LeftOut, Wish
from calc.serve.formats import served_format
from calc.serve.support import check_support, default_cache
from calc.spec.catalogue import load_device
from calc.spec.run.engines import engine_named


class Way(NamedTuple):
    """One of each that was asked for."""

    device: str
    engine: str
    dtype: str


def ways_of(wish: Wish) -> tuple[list[Way], list[LeftOut]]:
    """The ways that start, and those that do not. Errors: Refused where none does, as `serve` refuses the first, and
    for what is not known."""
    ways: list[Way] = []
    left_out: list[LeftOut] = []
    refused = None
    for way in map(Way._make, product(wish.devices, wish.engines, wish.dtypes)):
        engine, device, form = engine_named(way.engine), load_device(way.device), served_format(way.dtype)
        try:
            check_support(engine, device, form, default_cache(engine, form))
            ways.append(way)
        except Refused as error:
            refused = refused or error
            left_out.append(LeftOut(*way, str(error)))
    if refused and not ways:
        raise refused
    return ways, left_out
