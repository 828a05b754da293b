"""A run's mode: what memory is held for follows from what runs, and never contradicts it."""

from __future__ import annotations

import pytest

from calc.architectures.models import load_model
from calc.ask.estimate import estimate
from calc.errors import Refused
from calc.memory.totals import training_ranks
from calc.plan.launchers import launcher
from calc.quantities.parameters import parameters
from calc.spec.run import PHASES, Mode, Phase, Run, Workload
from calc.spec.stack import stack_names
from calc.time.step.timed_run import timed_run

MODE: dict[Phase, Mode] = {"forward": "training", "prefill": "inference", "decode": "inference", "training": "training"}


@pytest.mark.parametrize("node", [Run, Workload])
@pytest.mark.parametrize("phase", PHASES)
def test_a_mode_that_nobody_says_is_that_of_the_phase(node: type[Workload], phase: Phase) -> None:
    assert node(phase=phase).mode == MODE[phase]


@pytest.mark.parametrize(
    ("phase", "mode"), [("decode", "training"), ("prefill", "training"), ("training", "inference")]
)
def test_a_mode_that_the_phase_contradicts_is_refused(phase: Phase, mode: Mode) -> None:
    with pytest.raises(Refused, match=f"mode: expected {MODE[phase]} for phase {phase}, found {mode}"):
        Run(phase=phase, mode=mode)


def test_a_forward_pass_may_be_of_either_mode() -> None:
    assert Run(mode="inference").mode == "inference"
    assert Run(mode="inference").changed(batch=2).mode == "inference"


def test_another_phase_has_its_own_mode() -> None:
    assert Run(mode="inference").changed(phase="training").mode == "training"
    assert Run(phase="decode").changed(phase="training").mode == "training"
    assert Run(phase="decode").changed(phase="forward").mode == "training"
    assert Run(phase="decode").changed(batch=2).mode == "inference"


def test_memory_of_a_token_is_a_servers() -> None:
    """What a run that decodes holds is no optimizer."""
    spec = load_model("gpt2")
    served = estimate(spec, "memory.total", Run(mode="inference", seq=128))
    assert estimate(spec, "memory.total", Run(phase="decode", seq=128)).value == served.value
    assert served.value < estimate(spec, "memory.total", Run(seq=128)).value / 4


FORMATS = {"megatron-core": (2, 4, 4), "deepspeed": (2, 2, 4), "torchtitan": (4, 4, 0), None: (4, 4, 0)}
"""Stack -> bytes of a weight, its gradient and a wider copy where nothing is said of formats: Megatron-LM's
theoretical_memory_usage.py, arXiv:1910.02054 (section 3.1), FSDP2's fp32 weights, and torch.autocast's."""


@pytest.mark.parametrize("stack", FORMATS)
def test_formats_of_a_stack_are_those_of_every_run_of_it(stack: str | None) -> None:
    """However a run is made: from Python, for a time, or with a general recipe that the stack has another for."""
    spec = load_model("gpt2")
    words = {} if stack is None else {"stack": stack}
    runs = [
        Run(phase="training", **words),
        Run(phase="training", recipe="bf16-mixed", **words),
        Run(phase="training").changed(**words),
        timed_run(spec, phase="training", **words),
    ]
    (recipe,) = {run.recipe for run in runs}
    states = training_ranks(spec, runs[0].changed(seq=64))[0].states
    each = sum(parameters(spec).values())
    weight, gradient, copy = FORMATS[stack]
    assert (states.weights, states.gradients) == (weight * each, gradient * each)
    assert states.optimizer == (8 + copy) * each
    assert Run(stack="megatron-core", recipe="fp16-mixed").recipe == "fp16-mixed"
    assert stack is None or recipe in launcher(stack).recipes


def test_formats_that_plans_choose_among_are_the_stack_s_own() -> None:
    for name in stack_names():
        known = launcher(name).recipes if name != "megatron-lm" else ()
        assert all(Run(stack=name, recipe=recipe).recipe == recipe for recipe in known)
