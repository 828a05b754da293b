"""The simulation beside the closed form, where both hold; the same seed, the same answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from calc.architectures.models import load_model
from calc.errors import Refused
from calc.serve.answer import answer, check_rate
from calc.serve.closed_form import capacity_of, steady_of
from calc.serve.layout import layout_of
from calc.serve.report import report_of
from calc.serve.requests import Request
from calc.serve.server import Server
from calc.serve.service import Guessing, Service, service_of
from calc.serve.simulate import Apart, simulate, simulate_apart
from calc.serve.workload import Workload, closed_loop, open_loop
from tests.serve.services import llama


def middle(service: Service, workload: Workload) -> tuple[float, float]:
    """Seconds a token and requests a second, of the middle half of those answered."""
    tokens = workload.mean_input + workload.mean_output
    run = simulate(workload, lambda: service.server(tokens), lambda each: service.request_seconds(each.input))
    done = sorted(run.answered, key=lambda each: each.last or 0.0)
    some = done[len(done) // 4 : 3 * len(done) // 4]
    return (
        sum(each.tpot for each in some) / len(some),
        (len(some) - 1) / ((some[-1].last or 0.0) - (some[0].last or 0.0)),
    )


@pytest.mark.parametrize(
    ("input", "output", "concurrency"), [(1000, 1000, 8), (1000, 1000, 64), (512, 512, 200), (4000, 500, 16)]
)
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_closed_form(input: int, output: int, concurrency: int, engine: str) -> None:
    """Within 3 %, of an even mix of lengths that has forgotten how it began."""
    service = llama(engine=engine)
    workload = closed_loop(concurrency, input, output, 30 * concurrency, spread=1.0, seed=3)
    expected = steady_of(service, workload.mean_input, workload.mean_output, float(concurrency))
    tpot, requests = middle(service, workload)
    assert requests == pytest.approx(float(expected.requests), rel=0.03)
    assert tpot == pytest.approx(float(expected.tpot), rel=0.03)


@pytest.mark.parametrize(("input", "output", "concurrency"), [(1000, 1000, 64), (4000, 500, 32)])
@pytest.mark.parametrize("stages", [2, 4])
def test_closed_form_of_pipelines(input: int, output: int, concurrency: int, stages: int) -> None:
    service = llama(pp=stages)
    workload = closed_loop(concurrency, input, output, 20 * concurrency, spread=1.0, seed=3)
    expected = steady_of(service, workload.mean_input, workload.mean_output, float(concurrency))
    tpot, requests = middle(service, workload)
    assert requests == pytest.approx(float(expected.requests), rel=0.04)
    assert tpot == pytest.approx(float(expected.tpot), rel=0.04)


@pytest.mark.parametrize(("input", "output", "concurrency"), [(1000, 1000, 8), (1000, 1000, 64), (4000, 500, 16)])
@pytest.mark.parametrize("ranks", [2, 8])
def test_closed_form_of_ranks_of_attention(input: int, output: int, concurrency: int, ranks: int) -> None:
    """Of prompts that meet in a step each is another rank's."""
    spec = load_model("qwen3-30b-a3b")
    service = service_of(spec, "h100-sxm", layout_of(spec, attention_dp=ranks, ep=ranks), "vllm", "bf16")
    workload = closed_loop(concurrency, input, output, 20 * concurrency, spread=1.0, seed=3)
    expected = steady_of(service, workload.mean_input, workload.mean_output, float(concurrency))
    tpot, requests = middle(service, workload)
    assert requests == pytest.approx(float(expected.requests), rel=0.04)
    assert tpot == pytest.approx(float(expected.tpot), rel=0.04)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize("output", [11, 500])
def test_closed_form_of_answers_behind_prompts_of_others(engine: str, output: int) -> None:
    """A server of answers in the steady state that its clients keep: readers that take no time."""
    service, workload = llama(engine=engine), closed_loop(32, 1000, output, 960, spread=1.0, seed=3)
    tokens = workload.mean_input + workload.mean_output
    quick = dict.fromkeys(("streaming", "wide", "prompts", "pass_rate"), 1e30) | {"kernel": 0.0, "eager": 0.0}
    reader = replace(service, measured=service.rates._replace(**quick, step=0.0))
    apart = Apart([reader.server(tokens)], [service.server(tokens)], lambda request: 0.0)
    run = simulate_apart(workload, apart, lambda request: 0.0)
    expected = steady_of(service, workload.mean_input, workload.mean_output, 32.0, cached=workload.mean_input)
    done = sorted(run.answered, key=lambda each: each.last or 0.0)[240:720]
    seen = float(expected.e2e) / (workload.mean_output - 1)
    waited = sum((each.last or 0.0) - (each.first or 0.0) for each in done)
    assert waited / sum(each.output - 1 for each in done) == pytest.approx(seen, rel=0.03)


def test_answers_of_one_token_are_prompts_alone() -> None:
    """No more of them than steps hold, however many wait; as the simulation has it."""
    service = llama()
    expected = steady_of(service, 2000.0, 1.0, 64.0)
    _, requests = middle(service, closed_loop(64, 2000, 1, 1000, spread=1.0, seed=1))
    assert requests == pytest.approx(float(expected.requests), rel=0.05)


def test_longer_answers_are_fewer_and_those_that_wait_outside_take_no_place() -> None:
    """Short prompts beyond the 1,024 sequences that run: requests at the host and between steps are not among them."""
    service = llama()
    most = [capacity_of(service, 16, output) for output in (1, 2, 3, 4, 16)]
    assert most == sorted(most, reverse=True)
    _, requests = middle(service, closed_loop(6000, 16, 1, 12_000, spread=0.1))
    assert requests == pytest.approx(most[0], rel=0.04)


@pytest.mark.parametrize("engine", ["sglang", "trtllm"])
def test_more_who_wait_take_nothing_from_those_who_run(engine: str) -> None:
    """TensorRT-LLM lets in whoever it has room for to the end, SGLang whoever it expects to have room for."""
    spec = load_model("qwen3-32b")
    service = service_of(spec, "h100-sxm", layout_of(spec, tp=2), engine, "bf16")
    most = int(service.running(512, 512))
    held, crowded = (answer(service, closed_loop(c, 512, 512, 4 * most)).report for c in (most, 2 * most))
    assert held is not None
    assert crowded is not None
    assert crowded.output > 0.96 * held.output
    without = replace(service, engine=replace(service.engine, admission=None))
    unpromised = answer(without, closed_loop(2 * most, 512, 512, 4 * most)).report
    assert unpromised is not None
    assert crowded.preemptions < (unpromised.preemptions / 2 if engine == "sglang" else 1)


def test_who_has_no_room_to_the_end_does_not_run() -> None:
    """Two answers of 16,000 tokens fit an RTX 4090 beside the weights, and most of a third: two run at once, and ranks
    of attention with caches of their own are as many servers."""
    spec = load_model("llama-3-8b")
    alone = service_of(spec, "rtx-4090", layout_of(spec), "trtllm", "bf16")
    assert 2 * 516 < alone.blocks(16_512) < 3 * 516
    assert alone.running(512, 16_000) == 2
    ranks = service_of(spec, "rtx-4090", layout_of(spec, attention_dp=4), "trtllm", "bf16")
    assert ranks.running(512, 16_000) == 8
    one, four = (answer(each, closed_loop(8 * n, 512, 16_000, 16 * n)).report for each, n in ((alone, 1), (ranks, 4)))
    assert one is not None
    assert four is not None
    assert four.output == pytest.approx(4 * one.output, rel=0.1)
    with pytest.raises(Refused, match=r"fewer than the 0\.0059"):
        check_rate(alone, None, 0.0075, 512, 16_000, 0.1)


def test_seeds() -> None:
    service = llama()

    def told(seed: int) -> list[float]:
        found = answer(service, open_loop(4.0, 500, 200, 200, 0.5, seed))
        assert found.report is not None
        return [each.mean for each in (found.report.ttft, found.report.tpot, found.report.e2e)]

    assert told(1) == told(1)
    assert told(1) != told(2)


def test_one_request_is_its_steps() -> None:
    """Alone, a request waits for nobody: its prompt in one step, then a step a token."""
    service = llama()
    run = simulate(Workload((Request(0, 0.0, 512, 3),), 1), lambda: service.server(600), lambda each: 0.5)
    clock, (only,) = service.server(600).clock, run.requests
    from calc.serve.running import Piece

    prompt = clock.seconds(0, 0.0, [Piece(0, 512, True)])
    assert only.ttft == pytest.approx(0.5 + prompt)
    assert only.e2e == pytest.approx(0.5 + prompt + clock.seconds(1, 513) + clock.seconds(1, 514))


def test_capacity_is_refused_and_below_it_is_not() -> None:
    service = llama()
    most = capacity_of(service, 500, 200)
    check_rate(service, None, most * 0.9, 500, 200, 0.1)
    with pytest.raises(Refused, match="--rate"):
        check_rate(service, None, most * 1.01, 500, 200, 0.1)
    found = answer(service, open_loop(most * 0.8, 500, 200, 1500))
    assert found.report is not None
    assert found.report.requests_per_second == pytest.approx(most * 0.8, rel=0.1)


@pytest.mark.parametrize("users", [8, 60])
def test_who_comes_while_others_pass_the_stages_is_let_in_with_the_next_step(users: int) -> None:
    """Not once the first has got all of its answer."""
    spec = load_model("llama-3.1-70b")
    service = service_of(spec, "h100-sxm", layout_of(spec, tp=4, pp=2), "vllm", "bf16")
    report = answer(service, closed_loop(users, 1000, 1000, 6 * users, service.engine.scatter)).report
    assert report is not None
    expected = steady_of(service, 1000.0, 1000.0, float(users))
    assert report.ttft.p99 < 0.2 * report.e2e.mean
    assert report.requests_per_second == pytest.approx(float(expected.requests), rel=0.06)


def test_capacity_with_ranks_of_attention_is_no_less_than_an_overload_answers() -> None:
    spec = load_model("qwen3-30b-a3b")
    service = service_of(spec, "h200", layout_of(spec, attention_dp=4, ep=4), "vllm", "bf16")
    most = capacity_of(service, 8000, 500)
    check_rate(service, None, 1.02 * most, 8000, 500, service.engine.scatter)
    with pytest.raises(Refused, match="--rate"):
        check_rate(service, None, 2 * most, 8000, 500, service.engine.scatter)


def test_littles_law() -> None:
    found = answer(llama(), open_loop(6.0, 800, 200, 1500))
    assert found.report is not None
    report = found.report
    assert report.concurrency == pytest.approx(report.requests_per_second * report.e2e.mean, rel=1e-9)
    assert report.ttft.p50 <= report.ttft.p90 <= report.ttft.p99
    assert report.output == pytest.approx(report.requests_per_second * 200)


def test_replicas_share() -> None:
    one = llama()
    two = replace(one, layout=replace(one.layout, replicas=2))
    single, double = (answer(each, closed_loop(c, 512, 128, 20 * c)).report for each, c in ((one, 8), (two, 16)))
    assert single is not None
    assert double is not None
    assert double.output == pytest.approx(2 * single.output, rel=0.02)
    assert double.tpot.mean == pytest.approx(single.tpot.mean, rel=0.02)


def test_apart_no_prompt_holds_up_an_answer() -> None:
    """With prompts elsewhere, no gap between tokens is longer than a step without prompts."""
    service = llama()
    workload = closed_loop(32, 4000, 200, 200, seed=1)
    apart = Apart([service.server(4200)], [service.server(4200)], lambda request: 0.01)
    run = simulate_apart(workload, apart, lambda request: 0.0)
    together = simulate(workload, lambda: service.server(4200), lambda request: 0.0)
    assert len(run.answered) == len(together.answered) == 200
    alone, mixed = report_of([run]), report_of([together])
    assert alone.itl.p99 < mixed.itl.p99
    assert alone.tpot.mean < mixed.tpot.mean
    for each in run.answered:
        assert each.first is not None
        assert each.last is not None
        assert each.first < each.last


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize("output", [2, 100])
def test_of_equal_lengths_gaps_are_what_a_token_takes(engine: str, output: int) -> None:
    """Whether prompts hold up answers, are read elsewhere, or sequences give way and are read again."""
    service, workload = llama(engine=engine), closed_loop(32, 1000, output, 100)
    whole, blocks = [service.server(1000 + output) for _ in range(2)], service.engine.block
    tight = replace(whole[0].rules, blocks=-(-(1000 + output) // blocks) * 3 - 2)
    for run in (
        simulate(workload, lambda: service.server(1000 + output), lambda request: 0.0),
        simulate(workload, lambda: Server(whole[0].clock, tight), lambda request: 0.0),
        simulate_apart(workload, Apart(whole[:1], whole[1:], lambda request: 0.01), lambda request: 0.0),
    ):
        report = report_of([run])
        assert report.itl.mean == pytest.approx(report.tpot.mean)


@pytest.mark.parametrize("chunks", [1, 4])
def test_a_prompt_is_read_once_whatever_is_guessed(chunks: int) -> None:
    """A guesser as large as the model reads the prompt as that does; every guess but the first is a token more."""
    plain, ttft = replace(llama(), budget=4096 // chunks), {}
    for tokens in (0, 1, 2, 5):
        service = replace(plain, guessing=Guessing(tokens, 0.5, 1.0))
        run = simulate(closed_loop(1, 4096, 2, 1), lambda s=service: s.server(4098), lambda request: 0.0)
        ttft[tokens] = run.requests[0].ttft
    free = replace(plain, measured=plain.rates._replace(eager=0.0, sequence=0.0, step=0.0))
    once = simulate(closed_loop(1, 4096, 2, 1), lambda: free.server(4098), lambda request: 0.0).requests[0].ttft
    token = free.server(4098).clock.seconds(1, 0.0)
    assert ttft[1] - ttft[0] == pytest.approx(once)
    assert ttft[2] - ttft[1] == pytest.approx(token, rel=1e-3)
    assert ttft[5] - ttft[1] == pytest.approx(4 * token, rel=1e-3)


def test_guesses_that_are_right_save_steps() -> None:
    plain = llama()
    guessing = replace(plain, guessing=Guessing(3, 0.8, 1 / 32))
    assert guessing.guessing.accepted == pytest.approx(1 + 0.8 + 0.64 + 0.512)
    before, after = (answer(each, closed_loop(4, 512, 256, 40)).report for each in (plain, guessing))
    assert before is not None
    assert after is not None
    assert after.tpot.mean < before.tpot.mean / 2
