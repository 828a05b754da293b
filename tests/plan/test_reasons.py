"""What `plan` says in words: why a plan wins over another, why others are none, and by which line it is timed alone."""

from __future__ import annotations

import json
import re

import pytest

from calc.plan.answer import LEAST, NAMED, Plan, difference, seconds_lost
from calc.plan.checks import REASONS, in_words
from calc.plan.planning import answer
from tests.cli.test_commands import Run, run
from tests.plan.questions import question, small_model

__all__ = ["run"]
ASKED = ("--cluster", "dgx-h100", "--gpus", "8", "--seq", "1024", "--global-batch", "64seq")
UNITS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}


def parts(text: str) -> list[tuple[float, str]]:
    """Seconds that are lost less, and what to."""
    found = re.findall(r"([\d.]+) (s|ms|µs|ns) (less|more)([^,:]*)", text)
    return [(float(n) * UNITS[unit] * (1 if way == "less" else -1), what.strip()) for n, unit, way, what in found]


@pytest.fixture(scope="module")
def plans() -> tuple[Plan, ...]:
    asked = question(small_model(n_layers=8), sequences=16, seq=256, fixed={})
    found = answer([asked])
    return (*found.plans, *found.front)


def test_the_parts_of_a_difference_come_to_the_whole(plans: tuple[Plan, ...]) -> None:
    """Whatever is not named is summed; what is left over is worth no word."""
    rest = 0
    for one in plans:
        for other in plans:
            text = difference(one, other)
            if text.startswith("equal"):
                assert abs(other.seconds - one.seconds) <= (NAMED + 1) * LEAST * one.seconds
                continue
            (whole, _), *bars = parts(text)
            assert whole == pytest.approx(other.seconds - one.seconds, rel=0.01, abs=1e-8)
            assert sum(seconds for seconds, _ in bars) == pytest.approx(
                whole, abs=NAMED * LEAST * one.seconds + 0.01 * sum(abs(seconds) for seconds, _ in bars)
            )
            names = {name for _, name in bars} - {"of all else"}
            assert names <= {*seconds_lost(one), *seconds_lost(other)}
            assert len(names) <= NAMED
            rest += len(bars) > len(names)
    assert rest


def test_every_reason_has_words(plans: tuple[Plan, ...]) -> None:
    experts = small_model(n_experts=4, top_k=2, d_expert=64)
    asked = [
        question(small_model(), sequences=9, seq=66, fixed={}, words={"stack": stack})
        for stack in ("deepspeed", "hai-llm", "torchtitan", "megatron-core")
    ]
    asked += [question(experts, fixed={}, at_most={"batch": 1}, words={"stack": "torchtitan"})]
    seen = set[str]()
    for each in asked:
        seen |= {reason for reason, count in answer([each]).ruled.items() if count}
    assert {"stack:tp", "stack:zero", "micro-batches"} <= seen
    for reason in seen:
        assert " " in in_words(reason)
    assert in_words("stack:tp") == f"{REASONS['stack']}: tp"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--fix", "tp=2"), "unsupported by the stack: tp, since its configuration has none"),
        (("--fix", "cp=2"), "unsupported by the stack: cp, since its configuration has none"),
        (("--gradient-dtype", "fp32", "--fix", "zero=1"), "it is 2 or more with gradients in fp32"),
    ],
)
def test_why_a_stack_has_no_such_plan_is_said_once(run: Run, words: tuple[str, ...], why: str) -> None:
    """By the rule that `memory` and `predict` go by, whether or not a launch file is asked for."""
    lines = []
    for how in ("--stack", "--as"):
        status, _, err = run("plan", "gpt2", *ASKED, how, "deepspeed", *words)
        assert status == 1
        lines.append(err.splitlines()[-1])
    assert lines[0] == lines[1]
    assert why in lines[0]
    assert lines[0].lower().count("deepspeed") <= 1


def test_the_line_below_the_best_plan_is_its_command(run: Run) -> None:
    """Broken so that 80 columns hold it and a shell reads it as one."""
    asked = ("plan", "gpt2", *ASKED, "--stack", "fsdp2", "--at-most", "tp=1", "--top", "1")
    command = json.loads(run(*asked, "--json")[1])["command"]
    shown = re.search(r"^python -m calc predict .*(\n    .*)*", run(*asked)[1], re.M)
    assert shown is not None
    assert max(map(len, shown[0].splitlines())) <= 80
    assert shown[0].replace("\\\n    ", "") + " --json" == command
