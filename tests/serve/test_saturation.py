"""What a server answers that has fallen behind, beside simulations that go on."""

from __future__ import annotations

import pytest

from calc.architectures.models import load_model
from calc.serve.closed_form import capacity_of
from calc.serve.layout import layout_of
from calc.serve.saturation import overloaded_of
from calc.serve.service import Service, service_of
from calc.serve.simulate import simulate
from calc.serve.workload import Workload, closed_loop, open_loop
from tests.serve.services import llama

ROUNDS = 8
"""Requests of each client, one after the other."""


def seconds_of(service: Service, workload: Workload) -> list[float]:
    """Of each request, from sending to its last token, in the order in which they were sent."""
    tokens = workload.mean_input + workload.mean_output
    run = simulate(workload, lambda: service.server(tokens), lambda each: service.request_seconds(each.input))
    return [each.e2e for each in sorted(run.answered, key=lambda each: each.sent)]


def of_too_many(service: Service, input: int, output: int, clients: int) -> tuple[float, int]:
    """Requests a second in the middle third of those answered, and how often one gave way, with more clients than run
    at once."""
    run = simulate(
        closed_loop(clients, input, output, ROUNDS * clients, service.engine.scatter),
        lambda: service.server(input + output),
        lambda each: service.request_seconds(each.input),
    )
    done = sorted(each.last or 0.0 for each in run.answered)
    middle = done[len(done) // 3 : 2 * len(done) // 3]
    return (len(middle) - 1) / (middle[-1] - middle[0]), run.preemptions


def test_from_the_rate_of_an_overload_on_those_who_wait_grow_in_number() -> None:
    service = service_of(load_model("llama-3.1-8b"), "l4", layout_of(load_model("llama-3.1-8b")), "vllm", "fp8")
    most, overloaded = capacity_of(service, 1000, 1000), overloaded_of(service, 1000, 1000, service.engine.scatter)
    assert 0.75 * most < overloaded < 0.96 * most

    def grows(rate: float) -> float:
        seconds = seconds_of(service, open_loop(rate, 1000, 1000, 1200, service.engine.scatter))
        return sum(seconds[-300:]) / sum(seconds[:300])

    assert grows(0.9 * overloaded) < 1.3
    assert grows(0.99 * most) > 2


def test_a_server_that_has_fallen_behind_answers_less_than_one_that_keeps_up() -> None:
    """Short answers behind longer prompts: at 0.95 of its capacity it keeps up, with four fifths more clients than run
    at once it answers less than that."""
    service = llama()
    most, overloaded = capacity_of(service, 500, 200), overloaded_of(service, 500, 200, service.engine.scatter)
    seconds = seconds_of(service, open_loop(0.9 * most, 500, 200, 6000, service.engine.scatter))
    assert sum(seconds[-1000:]) < 1.6 * sum(seconds[:1000])
    answered, _ = of_too_many(service, 500, 200, round(1.8 * service.running(500, 200)))
    assert answered == pytest.approx(overloaded, rel=0.06)
    assert overloaded < 0.9 * most


@pytest.mark.parametrize(("engine", "gpu"), [("trtllm", "l4"), ("vllm", "h200")])
def test_where_nobody_gives_way_an_overload_answers_as_much(engine: str, gpu: str) -> None:
    """TensorRT-LLM promises all room ahead; an H200's cache holds more than vLLM lets in at once."""
    spec = load_model("llama-3.1-8b")
    service = service_of(spec, gpu, layout_of(spec), engine, "fp8")
    answered, preemptions = of_too_many(service, 200, 100, round(1.5 * service.running(200, 100)))
    assert preemptions == 0
    assert answered == pytest.approx(overloaded_of(service, 200, 100, service.engine.scatter), rel=0.08)
