"""What `serve` prints: one record for programs, and the same as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calc.output.tables import Table
from calc.serve.answer import Answer
from calc.serve.layout import Layout
from calc.serve.rates import rests_on
from calc.serve.report import DEFINITIONS, Report
from calc.serve.service import Service
from calc.serve.workload import Workload
from calc.spec.hardware import Device
from calc.units import HOUR, binary, duration, four, speed

MILLION = 1e6
EQUAL = 0.01
"""Of a throughput: ends of an interval that lie no further apart are told as one."""


def record_of(
    found: Answer,
    service: Service,
    decode: Service | None,
    workload: Workload,
    given: Mapping[str, Any],
    price: float | None,
) -> dict[str, Any]:
    """The answer as scripts read it. Seconds, tokens a second; null where the model does not fit."""
    gpus = service.layout.gpus + (decode.layout.gpus if decode else 0)
    report = found.report
    # Answers of one token have no time between tokens.
    single = report is not None and all(each.output < 2 for each in workload.requests)
    absent = () if not single else ("tpot", "itl")
    spreads = {name: None if report is None else getattr(report, name)._asdict() for name in SPREADS}
    spreads |= {name: dict.fromkeys(spreads[name] or {}) for name in absent}
    return {
        "model": service.spec.name,
        "device": service.device.name,
        "rests_on": _rests_on(service),
        **spreads,
        "throughput": None
        if report is None
        else {
            "output": report.output,
            "total": report.total,
            "output_per_gpu": report.output / gpus,
            "requests": report.requests_per_second,
        },
        "concurrency": None if report is None else report.concurrency,
        "saturated": found.saturated,
        "fits": found.fits,
        "interval": {
            name: {"level": level, "low": low, "high": high}
            for name, (level, low, high) in found.interval.items()
            if name not in absent
        },
        "capacity": found.capacity,
        "cache": None if report is None else _cache(decode or service, workload, report),
        "requests": None
        if report is None
        else {"answered": report.answered, "refused": report.refused, "preemptions": report.preemptions},
        "time": dict(found.parts),
        "cost": None if report is None or price is None else _cost(report, gpus, price),
        "run": _run(service, decode, workload, given, gpus),
    }


SPREADS = ("ttft", "tpot", "itl", "e2e", "waiting")
"""Distributions of a report."""


def _cache(service: Service, workload: Workload, report: Report) -> dict[str, float | None]:
    """tokens: None where no token takes any of it."""
    tokens = workload.mean_input + workload.mean_output
    return {
        "tokens": service.blocks(tokens) * service.engine.block if service.cached_bytes(tokens) else None,
        "most_used": report.cache_use,
        "hit_rate": report.hit_rate,
        "bytes_per_gpu": max(service.room, 0.0),
    }


def _cost(report: Report, gpus: int, price: float) -> dict[str, float]:
    """Money a million tokens: the time of steps with prompts in them is theirs, all other time the answers'."""
    second = price * gpus / HOUR
    read = max(report.total - report.output, 1e-12)
    return {
        "per_hour": price * gpus,
        "per_million_input": second * report.reading / read * MILLION,
        "per_million_output": second * (1 - report.reading) / max(report.output, 1e-12) * MILLION,
        "per_million_output_with_input": second / max(report.output, 1e-12) * MILLION,
        "per_million_total": second / max(report.total, 1e-12) * MILLION,
    }


def _run(
    service: Service, decode: Service | None, workload: Workload, given: Mapping[str, Any], gpus: int
) -> dict[str, Any]:
    """What was asked, defaults filled in."""
    laid: dict[str, Any] = _layout(service.layout)
    if decode is not None:
        laid = {"prefill": laid, "decode": _layout(decode.layout)}
    found: dict[str, Any] = {
        "engine": service.engine.name,
        "engine_version": service.engine.version,
        "gpus": gpus,
        **laid,
        "dtype": service.form.name,
        "cache_dtype": service.cache,
        "input": given["input_"] or workload.mean_input,
        "output": given["output"] or workload.mean_output,
        "requests": len(workload.requests),
        "batched_tokens": service.budget,
        "max_seqs": service.max_running,
    }
    for name in ("concurrency", "rate", "spread", "seed", "guess", "acceptance"):
        found[name] = given[name]
    if given["trace"] is not None:
        found |= {"spread": None, "seed": None}
    found["guess_cost"] = (decode or service).guessing.share if given["guess"] is not None else None
    found["trace"] = None if given["trace"] is None else str(given["trace"])
    return found


def _layout(layout: Layout) -> dict[str, int]:
    return {
        "gpus": layout.gpus,
        "tp": layout.tp,
        "pp": layout.pp,
        "attention_dp": layout.attention_dp,
        "ep": layout.ep,
        "moe_tp": layout.moe_tp,
        "replicas": layout.replicas,
    }


def _too_much(service: Service) -> str:
    """What does not fit, and what would help."""
    held, room = service.rank.held, service.room
    what = f"weights take {binary(int(held))} of the {binary(int(held + room))} of a GPU that the engine may use"
    if room > 0:
        what += f", and the cache of one request more than the {binary(int(room))} left"
    return f"{what}; --tp and --pp spread them over more GPUs, --dtype takes fewer bits"


def tables_of(services: Sequence[Service], found: Answer, record: Mapping[str, Any]) -> list[Table]:
    """The same for people. services: the one that serves, or the reader of prompts and the maker of answers."""
    run = record["run"]
    title = f"{record['model']} on {run['gpus']} {record['device']}, {run['engine']} {run['engine_version']}"
    line = _said(run)
    report = found.report
    if report is None:
        return [
            Table(
                ("", ""),
                [("fits", f"no: {_too_much(min(services, key=lambda each: each.room))}")],
                title,
                f"run: {line}",
            )
        ]
    spreads = [(name, *("–" if each is None else duration(each) for each in record[name].values())) for name in SPREADS]
    note = DEFINITIONS.replace("; ", "\n")
    facts = [
        ("output", f"{speed(report.output)} tokens/s, {speed(record['throughput']['output_per_gpu'])} a GPU"),
        ("input and output", f"{speed(report.total)} tokens/s"),
        ("requests", f"{four(report.requests_per_second)}/s of at most {four(found.capacity)}/s"),
        ("users", f"{speed(report.concurrency, 1)} at once{', some of them waiting' * found.saturated}"),
        ("cache", _held(record["cache"])),
        ("rests on", record["rests_on"]),
        ("time of a token", ", ".join(f"{name} {share:.0%}" for name, share in _longest(found.parts))),
        *_summing(services[-1], found.parts),
        *_priced(record["cost"]),
        *(_interval_row(name, interval) for name, interval in record["interval"].items()),
    ]
    if report.refused or report.preemptions:
        facts.append(("not as wished", f"{report.refused} refused, {report.preemptions} preempted"))
    return [
        Table(("", "mean", "p50", "p90", "p99"), spreads, title),
        Table(("", ""), facts, note=f"{note}\nrun: {line}"),
    ]


LAID = ("gpus", "tp", "pp", "attention_dp", "ep", "replicas")
REPLICAS = "replicas = gpus / (tp * pp * attention_dp)"


def _said(run: Mapping[str, Any]) -> str:
    """How a run is laid out and what guesses ahead, in words; where prompts and answers stand apart, of both."""
    formats = f"dtype {run['dtype']}, cache_dtype {run['cache_dtype']}"
    if run["guess"] is not None:
        formats += f", guess {run['guess']}, acceptance {run['acceptance']:g}, guess_cost {run['guess_cost']:.3g}"
    if "decode" not in run:
        return f"{_words(run)}, {formats}{_replicas(run)}"
    prefill, decode = run["prefill"], run["decode"]
    return f"prefill {_words(prefill)}; decode {_words(decode)}; {formats}{_replicas(prefill, decode)}"


def _replicas(*layouts: Mapping[str, Any]) -> str:
    """How many servers there are, where that is not one."""
    return f"; {REPLICAS}" * any(layout["replicas"] > 1 for layout in layouts)


def _words(layout: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {layout[name]}" for name in LAID)


def _longest(parts: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(parts.items(), key=lambda part: -part[1])[:5]


def _held(cache: Mapping[str, Any]) -> str:
    """What the cache is and what is found in it."""
    if cache["tokens"] is None:
        return "none: nothing is kept of a token"
    size = f"{cache['tokens']:,} tokens, {binary(int(cache['bytes_per_gpu']))} a GPU"
    return f"{cache['most_used']:.0%} used at most of {size}; {cache['hit_rate']:.0%} of prompts' tokens found in it"


def _summing(service: Service, parts: Mapping[str, float]) -> list[tuple[str, str]]:
    """What ranks talk over and what helps, where they do so for most of a token's time."""
    device, layout = service.device, service.layout
    if parts.get("communication", 0.0) <= 0.5 or layout.tp == 1 or not isinstance(device, Device):
        return []
    over = "their host, since they have no links of their own" if device.link_one_way is None else "their links"
    return [("communication", f"sums of {layout.tp} ranks over {over}; a smaller --tp, or stages (--pp), send less")]


def _interval_row(name: str, interval: Mapping[str, float]) -> tuple[str, str]:
    low, high = interval["low"], interval["high"]
    shown = f"{duration(low)} to {duration(high)}"
    if name == "throughput":
        shown = f"{four(low)} to {four(high)} tokens/s"
        if high < low * (1 + EQUAL):
            shown = f"{speed(high)} tokens/s, as much as is asked for"
    return f"{interval['level']:.0%} of mean {name}", shown


def _priced(cost: Mapping[str, float] | None) -> list[tuple[str, str]]:
    if cost is None:
        return []
    apart = f"input {cost['per_million_input']:.3g}, output {cost['per_million_output']:.3g}"
    return [("cost of a million", f"{apart}; output with its input {cost['per_million_output_with_input']:.3g}")]


def _rests_on(service: Service) -> str:
    """What an answer rests on, in words."""
    return rests_on(service.device, service.engine.name) if isinstance(service.device, Device) else "its profile"
