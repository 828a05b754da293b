"""What ranks send one another around experts of which each tensor-parallel rank has a part: held to rows that a
dispatcher moves, counted one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calc.architectures.models import load_model
from calc.spec.run import Run
from calc.spec.stack import load_stack
from calc.time import predict
from calc.time.cluster.links import links_of
from calc.time.kernels.kernel import Kernel, Send
from calc.time.step.network import between_ops
from calc.time.step.timed_run import timed_run

WORDS: dict[str, Any] = {"phase": "training", "cluster": "dgx-h100", "seq": 4096, "checkpointing": "none"}
QWEN = load_model("qwen3-30b-a3b")
LAYERS, WIDTH, EXPERTS, TOP_K = 48, 2048, 128, 8


def asked(once: bool = True, **words: Any) -> Run:
    stack = load_stack("megatron-core").model_copy(update={"once_a_rank": once})
    return timed_run(QWEN, None, **{**WORDS, "stack": stack, **words})


def around(run: Run) -> list[Kernel]:
    """The collectives of a model's experts."""
    return [kernel for kernel in between_ops(QWEN, run, links_of(run, None)) if kernel.between == "experts"]


def sizes(run: Run, function: str) -> list[float]:
    return [float(kernel.bytes) for kernel in around(run) if kernel.function == function]


def dispatched(tokens: int, tp: int, ep: int, once: bool) -> tuple[float, float, float]:
    """Rows of a rank, averaged over all, as a dispatcher moves them: tokens lie in slices of tensor-parallel ranks of
    `ep` micro-batches, each goes to the ranks of its experts that have the same tensor-parallel number, and these give
    what they have to their group. Rows that a rank sends (to itself too), those that its experts hold then, and those
    that leave a rank where every token goes straight to all ranks of its experts."""
    random = np.random.default_rng(5)
    sent, held = np.zeros((ep, tp)), np.zeros((ep, tp))
    straight = 0
    for home in range(ep):
        for token in range(tokens):
            at = token * tp // tokens
            owners = [int(expert) * ep // EXPERTS for expert in random.choice(EXPERTS, TOP_K, replace=False)]
            for owner in sorted(set(owners)) if once else owners:
                sent[home, at] += 1
                held[owner, :] += 1
                straight += sum((owner, other) != (home, at) for other in range(tp))
    return float(sent.mean()), float(held.mean()), straight / (ep * tp)


@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize(("tp", "ep"), [(2, 4), (4, 2), (8, 8)])
def test_rows_are_those_that_a_dispatcher_moves(tp: int, ep: int, once: bool) -> None:
    tokens, row = 512, WIDTH * 2
    run = asked(once, tp=tp, ep=ep, dp=ep, seq=tokens)
    sent, held, straight = dispatched(tokens, tp, ep, once)
    (gathered,), (scattered,) = (sizes(run, name) for name in ("all_gather", "reduce_scatter"))
    exchanged = sizes(run, "all_to_all")
    assert gathered == scattered == pytest.approx(held * row, rel=0.02)
    assert exchanged == pytest.approx([sent * row] * 2, rel=0.02)
    # What leaves a rank by both is what leaves it where each token goes to all ranks of its experts at once.
    leaving = exchanged[0] * (ep - 1) / ep + gathered * (tp - 1) / tp
    assert leaving == pytest.approx(straight * row, rel=0.02)


@pytest.mark.parametrize("once", [False, True])
def test_experts_that_all_ranks_have_read_each_token_once(once: bool) -> None:
    run = asked(once, tp=4, dp=2)
    assert sizes(run, "all_to_all") == []
    assert sizes(run, "all_gather") == sizes(run, "reduce_scatter") == [4096 * WIDTH * 2]


@pytest.mark.parametrize(("checkpointing", "times"), [("none", 2), ("full", 3)])
def test_every_layer_gathers_and_scatters_once_each_way(checkpointing: str, times: int) -> None:
    """And once more where it is computed again; within the tensor-parallel group, whose ranks stand side by side."""
    found = around(asked(tp=4, ep=16, dp=16, checkpointing=checkpointing))
    sums = [each for each in found if each.function != "all_to_all"]
    assert [each.calls for each in sums] == [LAYERS * times] * 2
    assert all(isinstance(each.shape, Send) and (each.shape.ranks, each.shape.near) == (4, 4) for each in sums)


@pytest.mark.parametrize("ep", [1, 4])
def test_ranks_with_the_whole_stream_add_up_tokens(ep: int) -> None:
    found = around(asked(tp=4, ep=ep, dp=4, cp=2, sequence_parallel=False))
    sums = [each for each in found if each.function != "all_to_all"]
    assert [(each.function, each.bytes, each.calls) for each in sums] == [("all_reduce", 2048 * WIDTH * 2, 2 * LAYERS)]


def test_a_token_is_summed_once_a_layer() -> None:
    found = predict(load_model("mixtral-8x7b"), "h100-sxm", phase="decode", tp=8, batch=4)
    sums = [row.kernel for row in found.kernels if row.kernel.between == "experts"]
    assert [(each.function, each.bytes, each.calls) for each in sums] == [("all_reduce", 4 * 4096 * 2, 32)]


def test_latent_experts_send_latents() -> None:
    """Nemotron 3 Super's experts read 1,024 of the stream's 4,096 channels; it has 40 layers of them."""
    spec = load_model("nemotron-3-super")
    run = timed_run(spec, None, **WORDS, stack="megatron-core", tp=2)
    found = [each for each in between_ops(spec, run, links_of(run, None)) if each.between == "experts"]
    assert {each.bytes for each in found} == {4096 * 1024 * 2}
    assert sum(float(each.calls) for each in found) == 40 * 2 * 2


def test_without_tensor_parallelism_nothing_is_summed() -> None:
    assert {each.function for each in around(asked(ep=8, dp=8))} == {"all_to_all"}
