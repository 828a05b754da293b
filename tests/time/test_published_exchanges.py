"""Experts' exchange beyond a node, of one model with two dispatchers, beside products and in the open: by what it
sends, and by published steps."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from calc.architectures.models import load_model
from calc.spec.catalogue import load_device
from calc.spec.stack import Stack, load_stack
from calc.time import Prediction, predict
from calc.time.cluster.links import links_of
from calc.time.kernels.kernel import Send
from calc.time.step.network import between_ops, hides
from calc.time.step.timed_run import timed_run
from tests.time.profile_tables import documented

QWEN = load_model("qwen3-30b-a3b")
PLAN = {"cluster": "dgx-h100", "tp": 1, "ep": 16, "seq": 4096, "batch": 1, "zero": 1, "checkpointing": "none"}
RUN = {"phase": "training", "recipe": "bf16-mixed", "gradient_dtype": "bf16", "gpus": 16, "micro_batches": 64}


class Published(NamedTuple):
    """A mean step in steady state. fitted: whether a constant is of this run."""

    exchange: str
    beside: bool
    seconds: float
    fitted: bool = False

    @property
    def stack(self) -> Stack:
        """HybridEP with routers in graphs; a plain all-to-all without."""
        usual = load_stack("megatron-core")
        overlap = usual.overlap.model_copy(update={"experts": self.beside})
        if self.exchange == "HybridEP":
            return usual.model_copy(update={"graphs": "routers", "overlap": overlap})
        return usual.model_copy(update={"overlap": overlap, "once_a_rank": False, "deepep": None})


STEPS = (
    Published("all-to-all", False, 41.25),
    Published("all-to-all", True, 31.31),
    Published("HybridEP", False, 24.7138),
    Published("HybridEP", True, 20.9920, fitted=True),
)
"""Qwen3-30B-A3B in bf16 on two nodes of eight H100, 1,024 sequences: https://github.com/NVIDIA-NeMo/Megatron-Bridge,
skills/nemo-mbridge-perf-expert-parallel-overlap/SKILL.md at 067f987d, read 2026-11-29."""


def predicted(step: Published) -> Prediction:
    return predict(QWEN, "h100-sxm", stack=step.stack, **PLAN, **RUN)  # pyright: ignore[reportArgumentType]


def test_published_steps_are_as_documented() -> None:
    lines = ["| exchange | beside products | measured | predicted | off |", "|---|---|---:|---:|---:|"]
    for step in STEPS:
        seconds = predicted(step).seconds
        off = f"{seconds / step.seconds - 1:+.0%}".replace("%", " %")
        name = f"{step.exchange}, which a constant is of" if step.fitted else step.exchange
        lines.append(f"| {name} | {'yes' if step.beside else 'no'} | {step.seconds:.1f} s | {seconds:.1f} s | {off} |")
    assert documented("exchange") == "\n".join(lines), "\n".join(lines)


@pytest.mark.parametrize("step", [each for each in STEPS if not each.fitted], ids=str)
def test_steps_that_nothing_was_fitted_to_are_told(step: Published) -> None:
    assert predicted(step).seconds == pytest.approx(step.seconds, rel=0.1)
    assert predicted(step).interval.low < step.seconds < predicted(step).interval.high


def exchanges(stack: Stack, **words: Any) -> list[Send]:
    run = timed_run(QWEN, None, **{**PLAN, "phase": "training", "dp": 64, "stack": stack, **words})
    sent = (kernel.shape for kernel in between_ops(QWEN, run, links_of(run, None)) if kernel.path.endswith("experts"))
    return [shape for shape in sent if isinstance(shape, Send)]


@pytest.mark.parametrize("ranks", [16, 32, 64])
def test_a_plain_all_to_all_copies_a_token_for_each_expert(ranks: int) -> None:
    """Of 8 copies those for other nodes cross; who sends one to a node crosses as often as there are nodes with any of
    8 out of 128 experts, at most."""
    plain, shared = (
        exchanges(each, ep=ranks) for each in (STEPS[0].stack, load_stack("megatron-core").model_copy(deep=True))
    )
    assert plain
    for each, once in zip(plain, shared, strict=True):
        assert each.once == 1.0
        assert 1 < float(once.once) * float(once.bytes) / (float(each.bytes) / 8) <= min(8, ranks / 8)


def test_a_graph_of_the_step_lets_all_of_it_pass_beside_products() -> None:
    """What a host launches hides a part, a graph of the whole step all but what the cores of the exchange cost."""
    device, stack = load_device("h100-sxm"), STEPS[1].stack
    launched, graph = (
        hides(timed_run(QWEN, None, stack=stack.model_copy(update={"graphs": each}), **PLAN, **RUN), "experts", device)
        for each in ("none", "step")
    )
    assert graph == pytest.approx(1 - 20 / 132)
    assert launched == pytest.approx(stack.overlap.experts_launched * graph)
