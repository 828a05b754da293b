"""The gate's rule on noise that is made up: what it must never call slower, and what it must always find."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.gating.decision import Change, Session, decide
from harness.gating.session import order

PROCESSES, ROUNDS = 4, 9
PLANTED = math.log(1.15)
Noise = Callable[[np.random.Generator, int], np.ndarray]
"""ln of how much longer each of so many samples, one after the other, takes."""


def gaussian(random: np.random.Generator, samples: int) -> np.ndarray:
    return random.normal(0, 0.03, samples)


def heavy(random: np.random.Generator, samples: int) -> np.ndarray:
    return 0.02 * random.standard_t(1.5, samples)


def spikes(random: np.random.Generator, samples: int) -> np.ndarray:
    return random.normal(0, 0.02, samples) + (random.random(samples) < 0.1) * random.exponential(1.0, samples)


def drift(random: np.random.Generator, samples: int) -> np.ndarray:
    return random.normal(0, 0.02, samples) + random.normal(0, 0.4) * np.arange(samples) / samples


def steps(random: np.random.Generator, samples: int) -> np.ndarray:
    """The machine becomes slower or faster at three moments, by up to a half."""
    levels = np.zeros(samples)
    for at in random.integers(0, samples, 3):
        levels[at:] = random.uniform(-0.4, 0.4)
    return levels + random.normal(0, 0.02, samples)


NOISES = (gaussian, heavy, spikes, drift, steps)


def session(noise: Noise, random: np.random.Generator, change: float, spread: float) -> Session:
    """Times as they come about: every process has a speed of its own, B's is changed, and samples are taken in turn."""
    speed = random.normal(0, spread, 2 * PROCESSES)
    speed[PROCESSES:] += change
    beside = noise(random, 2 * PROCESSES * ROUNDS).reshape(ROUNDS, 2 * PROCESSES)
    times = np.empty((2 * PROCESSES, ROUNDS))
    for number in range(ROUNDS):
        for turn, place in enumerate(order(PROCESSES, number)):
            times[place, number] = 1e-3 * math.exp(speed[place] + beside[number, turn])
    return times[:PROCESSES].tolist(), times[PROCESSES:].tolist()


def judged(noise: Noise, random: np.random.Generator, change: float, spread: float) -> Change:
    """As the gate does it: a second look where the first leaves it open."""
    sessions = [session(noise, random, change, spread)]
    found = decide(sessions)
    if found.verdict == "AMBIGUOUS":
        found = decide([*sessions, session(noise, random, change, spread)])
    return found


@pytest.mark.parametrize("noise", NOISES)
def test_without_a_change_fewer_than_one_in_several_hundred_is_slower(noise: Noise) -> None:
    random = np.random.default_rng(1)
    verdicts = Counter(judged(noise, random, 0.0, spread).verdict for spread in (0.005, 0.02, 0.04) for _ in range(300))
    assert verdicts["SLOWER"] + verdicts["FASTER"] <= 2
    assert verdicts["SAME"] > 700


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("spread", [0.005, 0.02])
def test_a_slowdown_of_15_percent_is_found(noise: Noise, spread: float) -> None:
    random = np.random.default_rng(2)
    verdicts = Counter(judged(noise, random, PLANTED, spread).verdict for _ in range(300))
    assert verdicts["SLOWER"] >= 0.97 * 300
    assert verdicts["SAME"] + verdicts["FASTER"] == 0


def test_a_speedup_is_found_too() -> None:
    random = np.random.default_rng(3)
    verdicts = Counter(judged(steps, random, -PLANTED, 0.02).verdict for _ in range(100))
    assert verdicts["FASTER"] >= 97


def test_what_is_too_noisy_to_tell_is_not_called_the_same() -> None:
    random = np.random.default_rng(4)
    verdicts = Counter(judged(gaussian, random, PLANTED, 0.15).verdict for _ in range(200))
    assert verdicts["AMBIGUOUS"] > 190


def test_many_samples_of_two_processes_a_side_do_not_make_them_sure() -> None:
    """Processes of A differ by 10 %, those of B as much: that B's mean is 5 % higher says nothing, however clear."""
    a, b = [[1.0] * 1000, [1.1] * 1000], [[1.05] * 1000, [1.155] * 1000]
    assert decide([(a, b)]).verdict == "AMBIGUOUS"


@given(st.floats(1e-9, 1e3), st.floats(-0.5, 0.5), st.integers(0, 2**16))
def test_the_unit_does_not_matter_and_sides_are_treated_alike(scale: float, change: float, seed: int) -> None:
    a, b = session(gaussian, np.random.default_rng(seed), change, 0.01)
    found, turned = decide([(a, b)]), decide([(b, a)])
    scaled = decide([([[scale * each for each in row] for row in a], [[scale * each for each in row] for row in b])])
    assert scaled.verdict == found.verdict
    assert scaled.ratio == pytest.approx(found.ratio, rel=1e-9)
    assert turned.ratio == pytest.approx(1 / found.ratio, rel=1e-9)
    assert (turned.low, turned.high) == pytest.approx((1 / found.high, 1 / found.low), rel=1e-9)
    opposite = {"SLOWER": "FASTER", "FASTER": "SLOWER"}
    assert turned.verdict == opposite.get(found.verdict, found.verdict)


def test_the_machine_may_change_between_two_looks() -> None:
    random = np.random.default_rng(5)
    first, second = (session(gaussian, random, PLANTED, 0.01) for _ in range(2))
    doubled = tuple([[2 * each for each in row] for row in side] for side in second)
    assert decide([first, doubled]) == pytest.approx(decide([first, second]))  # pyright: ignore


@pytest.mark.parametrize("times", [0.0, -1.0, math.nan, math.inf])
def test_times_that_are_none_are_refused(times: float) -> None:
    with pytest.raises(ValueError, match="positive"):
        decide([([[1.0], [times]], [[1.0], [1.0]])])


def test_one_process_a_side_is_refused() -> None:
    with pytest.raises(ValueError, match="two processes"):
        decide([([[1.0, 1.0]], [[1.0, 1.0]])])


def test_in_every_round_each_process_has_one_turn_and_sides_alternate_evenly() -> None:
    for number in range(2):
        assert sorted(order(4, number)) == list(range(8))
    early = [sum(turn for turn, place in enumerate(order(4, 0)) if place // 4 == side) for side in (0, 1)]
    assert early[0] == early[1]
