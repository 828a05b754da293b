"""What a server answers that has fallen behind."""

from __future__ import annotations

from calc.serve.closed_form import capacity_of
from calc.serve.service import Service
from calc.serve.simulate import simulate
from calc.serve.workload import closed_loop

FEWEST, ENOUGH, MOST = 8, 1000, 20
"""An overload that is simulated answers `ENOUGH` requests, but at least `FEWEST` times and at most `MOST` times as many
as run at once: of four times as many, those that began together are still a part (0.87 of capacity for 0.84)."""


def overloaded_of(service: Service, input: float, output: float, spread: float) -> float:
    """Requests a second that one replica answers where more wait than run. Its capacity, but where the cache is full
    before the engine lets in no more: there some give way, whose prompts and answers are read again, as a simulation of
    such an overload has it. At rates between the two a server keeps up until a burst makes it fall behind. spread: of
    lengths about these means, as `closed_loop` has it."""
    capacity, running = capacity_of(service, input, output), service.running(input, output)
    if running < 1 or service.engine.promises_all or running >= service.max_running * service.layout.attention_dp:
        return capacity
    return min(capacity, simulated_overload(service, input, output, spread))


def simulated_overload(service: Service, input: float, output: float, spread: float) -> float:
    """Requests a second of twice as many clients as run at once, in the middle of a simulation: neither those that
    began together nor the last ones, beside whom nobody waits."""
    running = service.running(input, output)
    rounds = min(max(ENOUGH / running, FEWEST), MOST)
    clients, count = round(2 * running), round(rounds * max(running, 8.0))
    workload = closed_loop(clients, round(input), round(output), count, spread)
    run = simulate(
        workload, lambda: service.server(input + output), lambda request: service.request_seconds(request.input)
    )
    done = sorted(request.last for request in run.answered if request.last is not None)
    middle = done[len(done) // 4 : 3 * len(done) // 4 + 1]
    return (len(middle) - 1) / (middle[-1] - middle[0])
