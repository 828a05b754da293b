"""A run's mode: what memory is held for follows from what runs, and never contradicts it."""

from __future__ import annotations

import pytest

from calc.architectures.models import load_model
from calc.ask.estimate import estimate
from calc.errors import Refused
from calc.spec.run import PHASES, Mode, Phase, Run, Workload

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
