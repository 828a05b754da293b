"""What a stack's own kernels keep less for backward, by closed forms."""

from __future__ import annotations

from typing import Any

import pytest

from calc.architectures.models import load_model
from calc.memory.totals import memory_ranks
from calc.quantities.saved_tensors import saved_tensors
from calc.spec.load import Load
from calc.spec.run import Kernels, Run
from calc.trace.settings import Settings

TOKENS, WIDTH, CHOSEN = 128, 2048, 8
QWEN = load_model("qwen3-30b-a3b")


def kept(name: str = "qwen3-30b-a3b", **settings: Any) -> dict[str, int]:
    """Bytes that a layer keeps, by group."""
    made = saved_tensors(load_model(name), Load(batch=1, seq=TOKENS), Settings(execution="compiled", **settings))
    return {name: sum(saved.tensor.bytes for saved in each.saved) for name, each in made.layers.items()}


def test_results_are_not_kept_where_activations_are_weighed() -> None:
    """Of each visit a row of results in 16 bits."""
    ((name, plain),) = kept().items()
    assert plain - kept(weighs_activation=True)[name] == TOKENS * CHOSEN * WIDTH * 2


def test_products_that_read_the_same_keep_one_narrow_copy() -> None:
    """Queries, keys and values; gate and up of each visit. A router keeps what it is given."""
    ((name, plain),) = kept(inputs="fp8").items()
    assert plain - kept(inputs="fp8", joins=True)[name] == TOKENS * WIDTH * 2 + TOKENS * CHOSEN * WIDTH


@pytest.mark.parametrize("model", ["gpt-oss-120b", "gemma-2-27b"])
def test_a_compiled_kernel_takes_sinks_and_caps(model: str) -> None:
    """No softmax is kept; in PyTorch's own kernels it is."""
    spec = load_model(model)
    ways: tuple[tuple[Kernels, bool], ...] = (("compiled", False), ("sdpa", True))
    for execution, written_out in ways:
        made = saved_tensors(spec, Load(batch=1, seq=TOKENS), Settings(execution=execution))
        for each in made.layers.values():
            assert any(saved.op.endswith("softmax") for saved in each.saved) == written_out


def test_the_stack_of_a_run_says_so() -> None:
    words: dict[str, Any] = {"phase": "training", "mode": "training", "seq": TOKENS, "execution": "compiled"}
    plain, core = (
        memory_ranks(QWEN, Run(**words, recipe="fp8", stack=stack))[0].moments for stack in (None, "megatron-core")
    )
    most = [max(moment["activations"] for moment in moments.values()) for moments in (plain, core)]
    layer = TOKENS * WIDTH * (2 + CHOSEN * 3)
    assert most[0] - most[1] == QWEN.n_layers * layer


def test_routers_and_heads_keep_in_fp8_what_they_are_given() -> None:
    """Two bytes a number, as beside 16-bit products; Megatron-Core's are none of Transformer Engine's layers."""
    for inputs in (None, "fp8"):
        made = saved_tensors(QWEN, Load(batch=1, seq=TOKENS), Settings(execution="compiled", inputs=inputs, joins=True))
        kept = [saved for _, saved in made.everything() if saved.role == "input"]
        for name in ("router", "logits"):
            (own,) = (saved.tensor for saved in kept if saved.op.endswith(f".{name}"))
            assert own.bytes == TOKENS * WIDTH * 2
