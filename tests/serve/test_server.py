"""A server under any workload: nothing is lost, nothing is made up, no cache without an owner."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from calc.serve.clock import StepClock
from calc.serve.prefixes import Prefixes
from calc.serve.promises import Promises
from calc.serve.requests import Request
from calc.serve.running import Hold, Rules
from calc.serve.server import Server
from calc.spec.run.engines import Admission
from tests.serve.services import llama

CLOCK = StepClock(llama().rank, llama().rates)
STAGED = StepClock(llama(pp=4).rank, llama(pp=4).rates, budget=16)

WHOLE = Admission("", part=1.0, least=1.0)
FALLING = Admission("", part=0.7, least=0.1, steps=20, ahead=5)

RULES = st.builds(
    Rules,
    budget=st.integers(1, 64),
    running=st.integers(1, 8),
    block=st.sampled_from([1, 4, 16]),
    blocks=st.integers(1, 40),
    mixed=st.booleans(),
    chunked=st.booleans(),
    accepted=st.sampled_from([1.0, 1.0, 2.5]),
    polls=st.sampled_from([1, 1, 7]),
    ahead=st.booleans(),
    admission=st.sampled_from([None, None, WHOLE, FALLING, replace(FALLING, most=8)]),
    hold=st.sampled_from([None, None, Hold(5, part=0.9), Hold(6, prompts=2, further=3)]),
)
LENGTHS = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 40), st.floats(0, 2)), min_size=1, max_size=25)


def handed_over(server: Server, request: Request) -> None:
    """A request whose prompt others have read: its first token came when it did."""
    request.first, request.scheduled = request.sent, request.sent
    server.add(request, read=request.input, left=request.output - 1)


def finished(
    server: Server, requests: list[Request], give: Callable[[Server, Request], object] = Server.add
) -> list[Request]:
    """Everything through a server, looked at after every step. give: how it gets a request."""
    waiting = sorted(requests, key=lambda each: each.sent)
    done: list[Request] = []
    for _ in range(100_000):
        if server.idle and not waiting:
            return done
        if server.idle:
            server.time = max(server.time, waiting[0].sent)
        while waiting and waiting[0].sent <= server.time:
            give(server, waiting.pop(0))
        before = server.time
        done += server.advance(waiting[0].sent if waiting else float("inf"))
        assert server.time >= before
        assert server.pages.used >= 0
        assert server.pages.held <= server.rules.blocks
        assert server.inside <= server.rules.running
    raise AssertionError("it never ends")


GUESSING = Rules(budget=1, running=2, block=1, blocks=31, mixed=False, chunked=False, accepted=2.5)


@settings(max_examples=400)
@given(st.sampled_from([CLOCK, STAGED]), RULES, LENGTHS)
@example(CLOCK, GUESSING, [(17, 14, 0.0)])
@example(CLOCK, replace(GUESSING, blocks=16), [(1, 9, 0.0), (1, 9, 0.0)])
def test_every_request_ends_once(clock: StepClock, rules: Rules, lengths: list[tuple[int, int, float]]) -> None:
    server = Server(clock, rules)
    requests = [Request(i, sent, input, output) for i, (input, output, sent) in enumerate(lengths)]
    done = finished(server, requests)
    refused = [each for each in requests if each.refused]
    assert sorted(each.number for each in (*done, *refused)) == list(range(len(requests)))
    assert all(rules.pages(each.input + each.output) > rules.blocks for each in refused)
    assert server.pages.used == 0
    assert sum(server.pages.phases) == server.decoding.ends == 0
    if rules.admission == WHOLE:
        assert not server.preemptions
    for each in done:
        assert each.scheduled is not None
        assert each.first is not None
        assert each.last is not None
        assert each.sent <= each.scheduled < each.first <= each.last
        assert (each.output == 1) == (each.first == each.last)
    waited = sum((each.last or 0.0) - (each.first or 0.0) for each in done)
    assert sum(seconds * count for seconds, count in server.gaps.seen) == pytest.approx(waited)
    if rules.accepted == 1:
        assert sum(count for _, count in server.gaps.seen) == sum(each.output - 1 for each in done)


@settings(max_examples=200)
@given(RULES, LENGTHS)
def test_answers_behind_prompts_of_others_all_end(rules: Rules, lengths: list[tuple[int, int, float]]) -> None:
    server = Server(CLOCK, rules)
    requests = [Request(i, sent, input, output + 1) for i, (input, output, sent) in enumerate(lengths)]
    done = finished(server, requests, handed_over)
    assert len(done) + sum(each.refused for each in requests) == len(requests)
    assert server.pages.used == sum(server.pages.phases) == 0
    waited = sum((each.last or 0.0) - each.sent for each in done)
    assert sum(seconds * count for seconds, count in server.gaps.seen) == pytest.approx(waited)
    if rules.accepted == 1:
        assert sum(count for _, count in server.gaps.seen) == sum(each.output - 1 for each in done)
    assert server.preemptions or not server.busy["reading"]


def test_a_prompt_is_read_by_one_rank_of_attention() -> None:
    """A step has room for 64 tokens on four ranks: of one prompt it takes 16 at a time, of four all 64."""
    rules = Rules(64, 8, 4, 100, mixed=True, chunked=True, ranks=4)
    steps = {}
    for n in (1, 4):
        server = Server(CLOCK, rules)
        for i in range(n):
            server.add(Request(i, 0.0, 48, 1))
        steps[n] = 0
        while not server.idle:
            server.advance(float("inf"))
            steps[n] += 1
    assert steps == {1: 3, 4: 3}


def test_an_answer_behind_a_prompt_of_others_is_steps_of_answers() -> None:
    """Nothing of it is read: the second token comes a step of one sequence after it came, as do all others."""
    server = Server(CLOCK, Rules(8192, 8, 16, 10_000, mixed=True, chunked=True))
    one = Request(0, 0.0, 1000, 4)
    finished(server, [one], handed_over)
    assert one.last == pytest.approx(sum(CLOCK.seconds(1, 1000.0 + n) for n in (1, 2, 3)), rel=1e-6)


@settings(max_examples=200)
@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 5), min_size=1, max_size=6), st.integers(1, 20)), min_size=1, max_size=20
    ),
    st.integers(8, 60),
)
def test_shared_prefixes_balance(prompts: list[tuple[list[int], int]], blocks: int) -> None:
    """Prompts of whole blocks of 4 tokens and some of their own; those that begin alike share what stays."""
    shared = Prefixes(4)
    server = Server(CLOCK, Rules(16, 4, 4, blocks, True, True), shared)
    requests = []
    for number, (choices, output) in enumerate(prompts):
        chain = [hash(tuple(choices[: i + 1])) for i in range(len(choices))]
        requests.append(Request(number, 0.0, 4 * len(chain) + 1, output, tuple(chain)))
    done = finished(server, requests)
    assert len(done) + sum(each.refused for each in requests) == len(requests)
    assert server.pages.used == 0
    assert not shared.readers
    assert all(0 <= each.cached < each.input for each in done)


def test_a_prefix_is_found_again() -> None:
    server = Server(CLOCK, Rules(64, 4, 4, 100, True, True), Prefixes(4))
    first, second = (Request(i, float(i), 17, 2, (1, 2, 3, 4)) for i in range(2))
    finished(server, [first, second])
    assert (first.cached, second.cached) == (0, 16)
    assert second.ttft < first.ttft


def test_who_came_last_gives_way() -> None:
    """Two answers of 40 tokens do not fit 20 pages of 4 together: the second waits until the first is done."""
    server = Server(CLOCK, Rules(64, 4, 4, 20, True, True))
    first, second = Request(0, 0.0, 20, 40), Request(1, 0.0, 20, 40)
    finished(server, [first, second])
    assert (first.preempted, second.preempted) == (0, 1)
    assert first.last is not None
    assert second.last is not None
    assert first.last < second.last


def test_priority_goes_first() -> None:
    server = Server(CLOCK, Rules(64, 1, 4, 100, True, True))
    late = Request(2, 0.0, 8, 4, priority=-1)
    finished(server, [Request(0, 0.0, 8, 4), Request(1, 0.0, 8, 4), late])
    assert late.first is not None
    assert late.scheduled == 0.0


def test_who_comes_urgently_in_every_step_keeps_nobody_waiting_whom_the_server_knew() -> None:
    """A server that lays its steps ahead knows each newcomer a step late: the one before is let in meanwhile."""
    server = Server(CLOCK, Rules(8192, 8, 1, 10_000, mixed=True, chunked=True, ahead=True))
    first, second = Request(0, 0.0, 100, 30), Request(1, 0.0, 100, 5)
    server.add(first)
    server.advance(float("inf"))
    server.add(second)
    for number in range(2, 6):
        server.add(Request(number, server.time, 10, 30, priority=-1))
        server.advance(server.time + 1e-9)
    assert second.scheduled is not None


def test_who_comes_waits_until_the_server_looks() -> None:
    """A prompt that comes beside a sequence that decodes waits for every tenth step; without one it does not wait."""

    def scheduled(polls: int) -> int:
        server = Server(CLOCK, Rules(8192, 8, 1, 10_000, mixed=False, chunked=True, polls=polls))
        server.add(Request(0, 0.0, 100, 50))
        server.advance(float("inf"))
        late = Request(1, server.time, 100, 5)
        server.advance(server.time + 1e-9)
        server.add(late)
        while late.scheduled is None:
            before = server.decoding.steps
            server.advance(server.time + 1e-9)
        return before

    assert scheduled(1) == 1
    assert scheduled(10) == 10


@pytest.mark.parametrize(
    ("hold", "coming", "steps"),
    [
        (None, 1, 0),
        (Hold(20, part=0.9), 1, 20),  # TensorRT-LLM's batch_wait_timeout_iters
        (Hold(20, part=0.1), 9, 0),  # its batch_wait_max_tokens_ratio
        (Hold(20, part=0.1), 7, 20),
        (Hold(49, prompts=2, further=10), 2, 10),  # its attention_dp_config.enable_balance, of two ranks
        (Hold(49, prompts=2, further=10), 1, 49),
    ],
)
def test_prompts_are_held_back_for_others_to_be_read_with(hold: Hold | None, coming: int, steps: int) -> None:
    """Prompts of 100 tokens beside two sequences that decode, in steps of 8,192: PyExecutor's `_waiting_requests` and
    `_balance_adp_requests`, which wait for nobody where nothing decodes."""
    server = Server(CLOCK, Rules(8192, 32, 1, 10_000, mixed=True, chunked=False, hold=hold))
    for number in range(2):
        server.add(Request(number, 0.0, 100, 500))
    server.advance(float("inf"))
    late = [Request(2 + number, server.time, 100, 5) for number in range(coming)]
    assert server.decoding.steps == 0
    for each in late:
        server.add(each)
    while any(each.first is None for each in late):
        before = server.decoding.steps
        server.advance(float("inf"))
    assert before == steps
    assert len({each.first for each in late}) == 1


def test_who_comes_while_a_step_runs_is_let_in_after_the_one_that_is_laid() -> None:
    """Two answers of ten tokens, the second sent amid a step of the first: an engine that lays its steps ahead reads it
    one step later than one that looks between any two; one that stands still has nothing laid."""
    waits = {}
    for ahead in (False, True):
        server = Server(CLOCK, Rules(8192, 8, 1, 10_000, mixed=True, chunked=True, ahead=ahead))
        first, second = Request(0, 0.0, 100, 10), Request(1, 0.0, 100, 10)
        server.add(first)
        server.advance(float("inf"))
        step = CLOCK.seconds(1, 101.0)
        server.advance(server.time + 2.5 * step)
        second.sent = server.time - 0.5 * step
        server.add(second)
        while second.first is None:
            server.advance(float("inf"))
        assert first.scheduled == 0.0
        assert second.scheduled is not None
        waits[ahead] = second.scheduled - second.sent
    assert waits[True] - waits[False] == pytest.approx(step, rel=0.01)


def test_who_is_promised_room_is_waited_for() -> None:
    """The second is let in when the first is done, and beside it where as much of its answer is counted as fits."""
    rules = Rules(64, 4, 4, 20, True, True, admission=WHOLE)
    first, second = Request(0, 0.0, 20, 40), Request(1, 0.0, 20, 40)
    finished(Server(CLOCK, rules), [first, second])
    assert first.preempted == second.preempted == 0
    assert second.scheduled == first.last
    short = Request(1, 0.0, 12, 4)
    finished(Server(CLOCK, rules), [Request(0, 0.0, 20, 40), short])
    assert short.scheduled == 0.0
    eager = replace(rules, admission=replace(WHOLE, most=4))
    first, second = Request(0, 0.0, 20, 40), Request(1, 0.0, 20, 40)
    finished(Server(CLOCK, eager), [first, second])
    assert (second.scheduled, second.preempted) == (0.0, 1)


def test_less_is_promised_with_every_step_and_more_after_one_gave_way() -> None:
    rule = Promises(Rules(64, 4, 1, 20, True, True), FALLING)
    assert rule.pages(100) == 70
    rule.passed(10)
    assert rule.pages(100) == 40
    rule.passed(100)
    assert rule.pages(100) == 10
    rule.gave_way(2, made=39, left=60)
    assert rule.pages(100) == 49
    rule.rest()
    assert rule.pages(100) == 70
