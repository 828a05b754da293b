"""Random plans of every tool: its file read back is the same plan, with the same seconds and bytes."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calc
from calc.plan.checks import possible
from calc.plan.existing import plan_of, question_of, words_of
from calc.plan.export.launch import Launch
from calc.plan.export.registry import TOOLS, tool
from calc.plan.question import Question, plan_words
from calc.plan.space import chunks, run_words, structures
from calc.spec.clusters import load_cluster
from calc.time.step.timed_run import timed_run

GPUS = 32
EXAMPLES = 6


@cache
def asked_of(name: str, model: str) -> Question:
    own = tool(name)
    spec, cluster, words = calc.load_model(model), load_cluster("dgx-h100"), own.words
    return Question(spec, cluster, (GPUS,), 4096, 96, own.recipes, words=words, launched=own.launcher)


@cache
def launched(name: str, model: str, structure: int) -> tuple[dict[str, Any], list[dict[str, int]]]:
    """One structure of a tool's plans, and the sizes of every plan of it that can be carried out."""
    asked = asked_of(name, model)
    kinds = [kind for kind in structures(asked)[0] if model == "llama-3-8b" or kind["checkpointing"] != "selective-op"]
    words = run_words(kinds[structure % len(kinds)])
    found: list[dict[str, int]] = []
    for columns in chunks(asked, GPUS, kinds[structure % len(kinds)]):
        run = timed_run(asked.spec, columns=True, **asked.run_words(), **words).placed(columns)
        rows, _ = possible(asked, run, columns)
        found += [{size: int(column[row]) for size, column in columns.items()} for row in rows]
    return words, found


@pytest.mark.slow
@pytest.mark.parametrize("model", ["llama-3-8b", "qwen3-30b-a3b"])
@pytest.mark.parametrize("name", TOOLS)
@settings(max_examples=EXAMPLES, deadline=None)
@given(structure=st.integers(0, 99), row=st.integers(0, 9999), optimizer=st.booleans())
def test_every_plan_is_read_as_it_was_written(name: str, model: str, structure: int, row: int, optimizer: bool) -> None:
    """What a file leaves to the program is that of the plan. optimizer: one that is not the usual one."""
    own, asked = tool(name), asked_of(name, model)
    words, sizes = launched(name, model, structure)
    if not sizes:
        return
    other = (own.optimizers or ("adamw", "lion"))[-1] if optimizer else "adamw"
    size = sizes[row % len(sizes)]
    if other == "adamw-bf16" and (size["zero"] == 0 or words["offload"] == "optimizer"):
        other = "adamw"
    saying = replace(asked, words={**asked.words, "optimizer": other})
    plan = plan_of(saying, {**words, **size})
    launch = Launch(saying, plan.run)
    read = own.read(own.write(launch), "plan")
    assert read.unread == ()
    left = own.left_to_program(launch)
    assert plan.run.usual_optimizer == left.pop("optimizer", read.words.get("optimizer", "adamw"))
    asks = question_of(saying if name == "accelerate" else asked, read)
    again = plan_of(asks, words_of(asks, read) | {field: value for field, value in left.items() if field != "seq"})
    assert plan_words(again.run) == plan_words(plan.run)
    assert (again.seconds, again.peak, again.reserved) == (plan.seconds, plan.peak, plan.reserved)
