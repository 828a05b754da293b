"""What a service does under a workload: whether it fits, how fast it answers, how sure that is, what it costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from calc.errors import Refused
from calc.serve.closed_form import capacity_of
from calc.serve.constants import interval_of
from calc.serve.machine import Machine
from calc.serve.operating_point import lengths_of
from calc.serve.parts import ANSWERED, Replicas, job_of, outcome
from calc.serve.report import Report, report_of
from calc.serve.requests import Request
from calc.serve.saturation import simulated_overload
from calc.serve.service import Service
from calc.serve.simulate import Apart, Simulated, simulate_apart
from calc.serve.step import StepLoad, step_time
from calc.serve.workload import Workload
from calc.workers.job import Progress
from calc.workers.workers import HERE, Workers

WARM = 0.1
"""Of requests at times of their own, those ahead of the steady state that count not."""


@dataclass(frozen=True)
class Answer:
    """report: None where the model does not fit. saturated: whether requests wait because no more run at once.
    capacity: requests a second that all replicas can answer. parts: of a step of a sequence's token, the share of each
    thing that takes time."""

    fits: bool
    report: Report | None
    saturated: bool
    capacity: float
    parts: Mapping[str, float]
    interval: Mapping[str, tuple[float, float, float]]


def answer(
    service: Service,
    workload: Workload,
    decode: Service | None = None,
    workers: Workers = HERE,
    progress: Progress | None = None,
) -> Answer:
    """A workload on a service; with `decode`, prompts are read by `service` and answers made by that.

    workers: who simulates the replicas, with the same answer; prompts and answers apart are one simulation. progress:
    told of requests that are answered.

    Errors: Refused for a sequence longer than attention is known of.
    """
    mean, last = workload.mean_input, workload.mean_output
    if not _holds(service, workload, decode):
        return Answer(False, None, False, 0.0, {}, {})
    ends = decode or service
    report = _report(service, workload, decode, workers, progress)
    # Of answers that begin together more share a step.
    capacity = max(_capacity(service, decode, mean, last), report.requests_per_second)
    each = report.concurrency / ends.layout.replicas
    saturated = each > 1.02 * ends.running(mean, last) or report.preemptions > 0
    return Answer(
        True,
        report,
        saturated,
        capacity,
        _parts(ends, mean, last, each),
        _interval(service, report, _offered(workload, report, capacity * last)),
    )


def simulated(service: Service, workload: Workload, decode: Service | None = None) -> Report | None:
    """What an answer reports, without all that it says besides; None where the model does not fit."""
    return _report(service, workload, decode) if _holds(service, workload, decode) else None


def _report(
    service: Service,
    workload: Workload,
    decode: Service | None,
    workers: Workers = HERE,
    progress: Progress | None = None,
) -> Report:
    if decode is None:
        runs = _together(service, workload, workers, progress)
    else:
        runs = _apart(service, decode, workload, progress)
    return report_of(runs, 0.0 if workload.concurrency else WARM)


def _holds(service: Service, workload: Workload, decode: Service | None) -> bool:
    """Whether the longest of the requests has room."""
    longest = max(each.input + each.output for each in workload.requests)
    return not any(_too_small(each, longest) for each in (service, decode or service))


def check_rate(
    service: Service, decode: Service | None, rate: float, input: float, output: float, spread: float
) -> None:
    """Errors: Refused, with the capacity, for a rate that lasts and cannot be answered, and for sequences too long."""
    if min(each.running(input, output) for each in (service, decode or service)) < 1:
        return
    most = _capacity(service, decode, input, output)
    if rate >= most and decode is None and service.layout.attention_dp > 1:
        # Requests of about one length end together, and the next of all ranks are read in the same steps.
        most = max(most, simulated_overload(service, input, output, spread) * service.layout.replicas)
    if rate >= most:
        raise Refused("--rate", f"fewer than the {most:.4g} requests a second that it can answer", rate)


def _too_small(service: Service, tokens: int) -> bool:
    pages = -(-tokens // service.engine.block)
    return service.own_blocks(tokens) < pages


def _capacity(service: Service, decode: Service | None, input: float, output: float) -> float:
    if decode is None:
        return capacity_of(service, input, output) * service.layout.replicas
    reads = capacity_of(service, input, 1.0) * service.layout.replicas
    if output <= 1:
        return reads
    return min(reads, capacity_of(decode, input, output, cached=input) * decode.layout.replicas)


def _together(service: Service, workload: Workload, workers: Workers, progress: Progress | None) -> list[Simulated]:
    tokens = workload.mean_input + workload.mean_output
    busy = _busy(service, workload)
    parts = [workload.part(i, busy) for i in range(busy)]
    heard = progress if workers == HERE else None  # elsewhere they are told of whole replicas alone
    found: list[Simulated] = []
    for i, part in workers.results(job_of(Replicas(service, parts, tokens, heard))):
        found.append(outcome(parts[i], part))
        if progress is not None:
            progress(ANSWERED, sum(len(each.requests) for each in found), len(workload.requests))
    return found


def _busy(service: Service, workload: Workload) -> int:
    """Replicas that have anything to do: of more than there are requests at once the others stay idle."""
    return min(service.layout.replicas, workload.at_once)


def _apart(service: Service, decode: Service, workload: Workload, progress: Progress | None) -> list[Simulated]:
    tokens = workload.mean_input + workload.mean_output

    def transfer(request: Request) -> float:
        return service.handover(decode, request.input)

    apart = Apart(
        [service.server(tokens) for _ in range(_busy(service, workload))],
        [decode.server(tokens) for _ in range(_busy(decode, workload))],
        transfer,
    )

    def on_answered(answered: int) -> None:
        if progress is not None:
            progress(ANSWERED, answered, len(workload.requests))

    return [simulate_apart(workload, apart, _delay(service), on_answered)]


def _delay(service: Service) -> Callable[[Request], float]:
    return lambda request: service.request_seconds(request.input)


def _parts(service: Service, input: float, output: float, under_way: float) -> dict[str, float]:
    """Shares of a step without prompts, at as many sequences as are under way."""
    rank = service.rank
    lengths = lengths_of(rank, input, output)
    own = max(min(under_way, service.running(input, output)) / rank.dp, 1.0)
    drafted = service.guessing.tokens + 1.0
    load = StepLoad(own, 0.0, own * lengths.cache, own * drafted * lengths.decoding, 0.0, own * drafted, drafted)
    step = step_time(rank, load, service.rates)
    return {name: float(value) / float(step.total) for name, value in step._asdict().items() if value}


class _Offered(NamedTuple):
    """Requests that come whatever the server does. made: tokens of the answers that count; sending: seconds between the
    first and the last of them; rest: from that to the last answer; most: tokens a second at capacity."""

    made: float
    sending: float
    rest: float
    most: float

    def output(self, faster: float) -> float:
        """Tokens a second of a server that is so many times as fast."""
        return min(self.made / (self.sending + self.rest / faster), faster * self.most)


def _offered(workload: Workload, report: Report, most: float) -> _Offered | None:
    """What is offered; None of a closed loop, whose clients send as fast as they are answered."""
    if workload.concurrency is not None:
        return None
    sent = sorted(each.sent for each in workload.requests)
    sent = sent[int(len(sent) * WARM) :]
    sending = min(sent[-1] - sent[0], report.seconds)
    return _Offered(report.output * report.seconds, sending, report.seconds - sending, most)


def _interval(service: Service, report: Report, offered: _Offered | None) -> dict[str, tuple[float, float, float]]:
    """level, low, high of what would be measured; no token comes before a rank has read its matrices, and no more of
    them than are asked for."""
    found = {}
    for name, value in (("ttft", report.ttft.mean), ("tpot", report.tpot.mean), ("throughput", report.output)):
        level, low, high = interval_of(name, service.engine.name)
        if name == "throughput" and offered is not None:
            found[name] = (level, min(offered.output(low), value), max(offered.output(high), value))
        else:
            found[name] = (level, value * low, value * high)
    if least := _least_tpot(service):
        (level, low, high), (of_output, slow, fast) = found["tpot"], found["throughput"]
        found["tpot"] = (level, min(max(low, least), report.tpot.mean), high)
        found["throughput"] = (of_output, slow, max(min(fast, report.concurrency / least), report.output))
    return found


def _least_tpot(service: Service) -> float:
    """Seconds that a device's memory takes for the matrices that every token passes, but for what its cache holds, by
    the tokens that a step can give a sequence; 0 where no datasheet says."""
    device, rank = service.device, service.rank
    if isinstance(device, Machine):
        return 0.0
    cached = float(device.l2.value) if device.l2 else 0.0
    read = max(rank.dense_bytes + rank.wide_bytes + rank.head_bytes - cached, 0.0)
    return read / float(device.bandwidth.value) / (service.guessing.tokens + 1.0)
