"""A service in its steady state, and how many requests a second it answers at most, in closed form."""

from __future__ import annotations

from typing import Any

from calc.serve.operating_point import OperatingPoint, lengths_of
from calc.serve.service import Service
from calc.serve.steady import Steady, steady

MANY = 1e9
"""Requests under way that are more than any service answers soon."""


def steady_of(service: Service, input: float, output: float, concurrency: Any, cached: float = 0.0) -> Steady:
    """The steady state of one replica in closed form; a column of concurrencies gives columns. cached: tokens of each
    prompt that are in the cache already; all of them where others took the request, read it and gave a first token."""
    guess = service.guessing
    point = OperatingPoint(
        input,
        output,
        concurrency,
        float(service.budget),
        service.running(input, output),
        accepted=guess.accepted,
        drafted=guess.tokens + 1.0,
        cached=cached,
        ahead=float(service.engine.ahead),
        **service.held(),
    )
    lengths = lengths_of(service.rank, input, output, cached)
    request = service.request_seconds(input) if cached < input else 0.0
    return steady(service.rank, service.rates, point, lengths, request, float(service.engine.mixed))


def capacity_of(service: Service, input: float, output: float, cached: float = 0.0) -> float:
    """Requests a second that one replica answers at most, however many wait, where nobody gives way."""
    import numpy as np

    running = service.running(input, output)
    if running < 1:
        return 0.0
    found = steady_of(service, input, output, np.append(np.geomspace(1.0, running, 64), MANY), cached)
    return float(np.max(found.requests))
