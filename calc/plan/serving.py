"""Which GPUs, spread how, shall serve a model: every layout in closed form, the front of users against throughput."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from calc.errors import Refused
from calc.plan.serving_plan import LOADS, Found, ServingPlan, Wish
from calc.plan.serving_slo import best_of, nearest_of
from calc.plan.serving_ways import ways_of
from calc.serve.closed_form import steady_of
from calc.serve.launching import check_launch
from calc.serve.layout import Layout, layout_of
from calc.serve.service import Service, service_of
from calc.spec import ModelSpec
from calc.spec.catalogue import load_device
from calc.time.cluster.links import domain_of
from calc.workers.job import Progress, one_by_one

PAIRED = 12
"""Readers of prompts that are tried with every maker of answers."""


def search_serving(wish: Wish, progress: Progress | None = None) -> Found:
    """Every plan, or where Ctrl-C ends it those until then. progress: called with what is done, how much of it and how
    much there is. Errors: Refused where no layout divides the model, no engine starts, the tool starts none, or a
    device lacks a price."""
    if wish.prices is not None and (lacking := [name for name in wish.devices if name not in wish.prices]):
        raise Refused("--price", "a price of every device", f"none of {', '.join(lacking)}")
    services = list(services_of(wish))
    if not services:
        raise Refused("--gpus", "a number of GPUs that divides the model", f"{wish.gpus[0]}..{wish.gpus[1]}")
    able = services if wish.tool is None else _startable(wish.tool, services)
    holding = [each for each in able if each.running(wish.input, wish.output) >= 1]
    plans: list[ServingPlan] = []
    best = nearest = None
    interrupted = False
    try:
        for service in one_by_one("layouts", holding, progress):
            plans += _loads(wish, service)
        if wish.apart:
            plans += _apart(wish, holding)
        best = best_of(wish, plans, progress)
        nearest = nearest_of(wish, plans) if best is None else None
    except KeyboardInterrupt:
        interrupted = True
    left_out = tuple(ways_of(wish)[1])
    counts = (len(plans), len(services), len(services) - len(able), len(holding))
    return Found(_front(plans), best, nearest, *counts, left_out, interrupted)


def services_of(wish: Wish) -> Iterator[Service]:
    """Every service of a wish that its engine starts, whether or not it holds the model. Errors: Refused as
    `service_of`, and where no engine starts any."""
    ways, _ = ways_of(wish)
    for device in wish.devices:
        own = [way for way in ways if way.device == device]
        for layout in _layouts(wish.spec, wish.gpus, domain_of(load_device(device))):
            for _, engine, dtype in own:
                for budget in wish.budgets:
                    yield service_of(wish.spec, device, layout, engine, dtype, budget=budget, guessing=wish.guessing)


def _startable(tool: str, services: Sequence[Service]) -> list[Service]:
    """Those that a tool starts. Errors: Refused where it starts none, as for the first."""
    found: list[Service] = []
    refused = None
    for service in services:
        try:
            check_launch(tool, service)
            found.append(service)
        except Refused as error:
            refused = refused or error
    if refused and not found:
        raise refused
    return found


def _layouts(spec: ModelSpec, gpus: tuple[int, int], joined: int) -> Iterator[Layout]:
    """Layouts of one server: tensor parallelism alone or with groups of attention, experts in one piece or cut; of
    several domains of fast links of `joined` GPUs also with a stage of a pipeline in each."""
    for total in _totals(*gpus):
        for wide in dict.fromkeys((total, joined)) if total % joined == 0 else [total]:
            for tp in _divisors(wide) if spec.has_experts else [wide]:
                for ep in dict.fromkeys((1, wide)) if spec.has_experts else [1]:
                    try:
                        yield layout_of(spec, tp=tp, pp=total // wide, attention_dp=wide // tp, ep=ep)
                    except Refused:
                        continue


def _totals(low: int, high: int) -> list[int]:
    """Every power of two of a range, and both of its ends."""
    return sorted({low, high, *(n for n in (2**i for i in range(high.bit_length())) if low <= n)})


def _divisors(n: int) -> list[int]:
    return [each for each in range(1, n + 1) if n % each == 0]


def _loads(wish: Wish, service: Service) -> Iterator[ServingPlan]:
    """A service at every load that it holds."""
    import numpy as np

    most = service.running(wish.input, wish.output)
    loads = np.array([load for load in LOADS if load < most] + [min(most, LOADS[-1])])
    found = steady_of(service, wish.input, wish.output, loads)
    price = None if wish.prices is None else wish.prices[service.device.name]
    for i, load in enumerate(loads):
        yield ServingPlan(
            (service,),
            float(load),
            float(found.ttft[i]),
            float(found.tpot[i]) if wish.output > 1 else math.nan,
            float(found.requests[i]) * service.layout.replicas,
            wish.output,
            price,
        )


def _apart(wish: Wish, services: Sequence[Service]) -> Iterator[ServingPlan]:
    """Readers of prompts beside makers of answers on the same kind of device, as many of each as keep both busy; none
    where readers' first tokens are all."""
    if wish.output <= 1:
        return
    for device in {service.device.name for service in services}:
        own = [service for service in services if service.device.name == device]
        readers = sorted(
            (plan for service in own for plan in _reading(wish, service)), key=lambda each: -each.requests / each.gpus
        )
        for maker in own:
            for plan in _making(wish, maker):
                for reader in readers[:PAIRED]:
                    yield from _paired(wish, reader, plan)


def _reading(wish: Wish, service: Service) -> Iterator[ServingPlan]:
    return _loads(replace(wish, output=1), service)


def _making(wish: Wish, service: Service) -> Iterator[ServingPlan]:
    """Answers behind prompts that others have read, from the second token on, which waits for the step under way."""
    import numpy as np

    most = service.running(wish.input, wish.output)
    loads = np.array([load for load in LOADS if load < most] + [min(most, LOADS[-1])])
    found = steady_of(service, wish.input, wish.output, loads, cached=float(wish.input))
    price = None if wish.prices is None else wish.prices[service.device.name]
    for i, load in enumerate(loads):
        requests, tpot = float(found.requests[i]), float(found.e2e[i]) / (wish.output - 1)
        yield ServingPlan((service,), float(load), 0.0, tpot, requests, wish.output, price)


def _paired(wish: Wish, reader: ServingPlan, maker: ServingPlan) -> Iterator[ServingPlan]:
    readers = max(round(maker.requests / reader.requests), 1)
    makers = max(round(reader.requests / maker.requests), 1)
    reading, making = reader.services[0], maker.services[0]
    if readers * reading.layout.gpus + makers * making.layout.gpus > wish.gpus[1]:
        return
    services = tuple(
        replace(service, layout=replace(service.layout, replicas=count))
        for service, count in ((reading, readers), (making, makers))
    )
    requests = min(readers * reader.requests, makers * maker.requests)
    ttft = reader.ttft + services[0].handover(services[1], wish.input)
    yield ServingPlan(services, maker.concurrency, ttft, maker.tpot, requests, wish.output, maker.price)


def _front(plans: Iterable[ServingPlan]) -> tuple[ServingPlan, ...]:
    """Plans that none beats in both, pipelines counting for less than they promise."""
    front: list[ServingPlan] = []
    for plan in sorted(plans, key=lambda each: (-each.swift / each.handicap, -each.per_gpu)):
        if not front or plan.per_gpu / plan.handicap > front[-1].per_gpu / front[-1].handicap:
            front.append(plan)
    return tuple(reversed(front))
