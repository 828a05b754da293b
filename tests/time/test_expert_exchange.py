"""What ranks send one another around experts of which each tensor-parallel rank has a part: held to rows that a
dispatcher moves, counted one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calc.architectures.models import load_model
from calc.errors import Refused
from calc.spec.run import Run
from calc.spec.stack import load_stack
from calc.time import predict, step_times
from calc.time.cluster.links import links_of
from calc.time.device.speed_of import speed_of
from calc.time.kernels.kernel import Kernel, Send
from calc.time.step.expert_rows import ExpertRows, expert_rows
from calc.time.step.network import between_ops
from calc.time.step.timed_run import timed_run
from calc.trace.functions import Matmul

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


@pytest.mark.parametrize(("tp", "dp", "ep"), [(2, 4, 4), (2, 4, 8), (4, 2, 8)])
def test_whole_experts_lie_on_tensor_parallel_ranks_too(tp: int, dp: int, ep: int) -> None:
    """Rows as a dispatcher without tensor-parallel parts moves them, each rank sending its slice of the tokens."""
    tokens = 512
    run = asked(False, tp=tp, dp=dp, ep=ep, expert_tp=1, seq=tokens)
    found = around(run)
    assert {each.function for each in found} == {"all_to_all"}
    assert {each.bytes for each in found} == {tokens / tp * TOP_K * WIDTH * 2}
    assert all(isinstance(each.shape, Send) and each.shape.ranks == ep == each.shape.near for each in found)


@pytest.mark.parametrize("ep", [1, 4, 16])
def test_a_rank_has_as_much_of_its_experts_work_whole_as_cut(ep: int) -> None:
    """Tokens of the same number of ranks meet 128 / ep experts: whole ones, of wider matrices and fewer rows."""
    words = WORDS | {"tp": 4, "dp": 16, "ep": ep, "stack": "megatron-core", "zero": 1}
    products = []
    for pieces in (1, 4):
        found = predict(QWEN, "h100-sxm", **words, expert_tp=pieces)
        kernels = [row.kernel for row in found.kernels if row.kernel.path.endswith("down_proj")]
        (one,) = [each for each in kernels if each.direction == "forward"]
        assert isinstance(one.shape, Matmul)
        products.append((one.flops, one.shape))
    (flops, whole), (same, cut) = products
    assert flops == pytest.approx(same) == pytest.approx(2 * 4096 * TOP_K / 4 * 768 * WIDTH)
    assert (whole.groups, whole.k, whole.n) == (EXPERTS / ep, 768, WIDTH)
    assert (cut.groups, cut.k, cut.n) == (EXPERTS / ep, 768 / 4, WIDTH)
    assert whole.m == pytest.approx(cut.m / 4) == pytest.approx(4096 * TOP_K / 4 * ep / EXPERTS)


def test_parts_or_whole_the_default_is_cut() -> None:
    words = WORDS | {"tp": 4, "dp": 16, "ep": 4, "stack": "megatron-core"}
    assert predict(QWEN, "h100-sxm", **words).seconds == predict(QWEN, "h100-sxm", **words, expert_tp=4).seconds


@pytest.mark.parametrize(("pieces", "ep"), [(1, 1), (1, 8), (1, 64), (4, 1), (4, 16)])
def test_gradients_of_experts_are_summed_over_the_ranks_that_have_them(pieces: int, ep: int) -> None:
    """64 GPUs of which 4 are tensor-parallel: what a rank holds, times all ranks, is every expert as often as there are
    ranks that have it."""
    words = WORDS | {"tp": 4, "dp": 16, "ep": ep, "expert_tp": pieces, "stack": "megatron-core", "zero": 1}
    found = predict(QWEN, "h100-sxm", **words, recipe="bf16-master")
    sent = [row.kernel for row in found.kernels if row.kernel.path == "data of experts"]
    replicas = 64 // (pieces * ep)
    experts = LAYERS * EXPERTS * 3 * WIDTH * 768
    if pieces == 4 and ep == 1:
        assert sent == []  # summed with all other gradients
        return
    scattered = [each for each in sent if each.function == "reduce_scatter"]
    if replicas == 1:
        assert scattered == []
        return
    (one,) = scattered
    assert isinstance(one.shape, Send)
    assert one.shape.ranks == replicas
    assert one.bytes == pytest.approx(experts * replicas / 64 * 4)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"tp": 4, "expert_tp": 2}, "expert_tp: expected 1, or tp = 4, found 2"),
        ({"tp": 4, "dp": 2, "ep": 16, "expert_tp": 1}, r"ep: expected a divisor of dp \* cp \* tp / expert_tp = 8"),
        ({"tp": 4, "expert_tp": 1, "sequence_parallel": False}, "expert_tp: expected none beside --no-sequence"),
        ({"tp": 4, "expert_tp": 1, "phase": "decode"}, "expert_tp: expected none"),
    ],
)
def test_experts_that_cannot_be_spread_so_are_refused(words: dict[str, Any], said: str) -> None:
    with pytest.raises(Refused, match=said):
        predict(QWEN, "h100-sxm", **{**WORDS, **words})


def test_a_model_without_experts_has_none_to_keep_whole() -> None:
    with pytest.raises(Refused, match="expert_tp"):
        predict(load_model("llama-3-8b"), "h100-sxm", **WORDS, tp=2, expert_tp=1)


def test_plans_of_whole_experts_are_arrays_of_one() -> None:
    columns: dict[str, Any] = {
        "tp": [1, 2, 4, 2, 8],
        "dp": [8, 4, 2, 8, 1],
        "ep": [8, 8, 4, 2, 8],
        "zero": [1, 3, 2, 0, 1],
    }
    words = WORDS | {"seq": 512, "stack": "megatron-core", "expert_tp": 1}
    found = step_times(QWEN, "h100-sxm", **columns, **words)
    for row in range(5):
        plan: dict[str, Any] = {name: column[row] for name, column in columns.items()}
        alone = predict(QWEN, "h100-sxm", **words, **plan)
        assert alone.memory.peak is not None
        assert found.peak is not None
        assert found.seconds[row] == pytest.approx(alone.seconds, rel=1e-12)
        assert found.peak[row] == pytest.approx(alone.memory.peak, rel=1e-12)


def exchanged(words: dict[str, Any]) -> tuple[float, tuple[str, ...]]:
    """Seconds of a step that experts' tokens take, and what is noted."""
    found = predict(QWEN, "h100-sxm", **WORDS | {"stack": "megatron-core"} | words)
    sent = [row for row in found.kernels if row.kernel.function == "all_to_all"]
    return sum(float(row.kernel.calls) * row.timing.seconds for row in sent), found.notes


def test_deepep_sends_tokens_of_a_training_within_a_node() -> None:
    """As its kernels were measured to on an H100, 20 SMs sending 16 bits both ways: tokens go out and come back, and so
    do the gradients of both."""
    model = speed_of("h100-sxm").exchange["combine.throughput"]
    seconds, notes = exchanged({"ep": 8, "dp": 8})
    assert seconds == pytest.approx(4 * LAYERS * model.seconds(4096, WIDTH, TOP_K, EXPERTS, 8, 20), rel=1e-6)
    assert any("DeepEP's throughput kernels" in note for note in notes)


@pytest.mark.parametrize(
    "words",
    [{"ep": 4, "dp": 8}, {"ep": 16, "dp": 16}, {"ep": 8, "dp": 8, "stack": "torchtitan"}, {"ep": 8, "dp": 8, "tp": 2}],
    ids=["part of a node", "two nodes", "another dispatcher", "experts cut"],
)
def test_elsewhere_tokens_take_an_all_to_all(words: dict[str, Any]) -> None:
    run = timed_run(QWEN, None, **{**WORDS, "stack": "megatron-core", **words})
    assert all(shape.exchange is None for kernel in around(run) if isinstance(shape := kernel.shape, Send))
    assert "experts' tokens take what an all-to-all of their ranks does" in exchanged(words)[1]


@pytest.mark.parametrize(
    ("plan", "sent", "computed", "each"),
    [
        # 2,048 tokens of 8 experts each on 8 ranks, which have 16 of the 128 experts.
        ({"dp": 8, "ep": 8}, 2048 * 8, 2048 * 8, 8 * 2048 * 8 / 128),
        # Both ranks of a pair send half of the tokens, and compute half of the columns of all that comes to the pair.
        ({"dp": 4, "tp": 2, "ep": 4}, 2048 * 8 / 2, 2048 * 8, 4 * 2048 * 8 / 128),
        ({"dp": 4, "tp": 2, "ep": 8, "expert_tp": 1}, 2048 * 8 / 2, 2048 * 8 / 2, 4 * 2048 * 8 / 128),
        ({"dp": 2, "cp": 2, "ep": 4, "batch": 2}, 2 * 2048 * 8 / 2, 2 * 2048 * 8 / 2, 2 * 2 * 2048 * 8 / 128),
        ({"dp": 8, "ep": 8, "routing": "power-law:1.2"}, 2048 * 8, 2048 * 8, 8 * 2048 * 8 / 128),
    ],
)
def test_a_prediction_says_how_many_rows_its_ranks_exchange(
    plan: dict[str, Any], sent: float, computed: float, each: float
) -> None:
    words: dict[str, Any] = {**WORDS, "seq": 2048, **plan}
    found = predict(QWEN, "h100-sxm", **words)
    (rows,) = expert_rows(found.kernels, found.run)
    assert rows == ExpertRows("layers", plan["ep"], sent, False, computed, each)
    said = rows.sentence(found.run.routing)
    assert f"sends {sent:,.0f} rows and computes {computed:,.0f}, {each:,.0f} an expert: balanced" in said
    assert said.endswith("whatever power-law:1.2 says") == ("routing" in plan)


def test_rows_that_are_sent_once_a_rank_are_fewer() -> None:
    """Of 8 ranks a token's 8 experts lie on 5.34 in the mean: on all but those that none of them is on."""
    words: dict[str, Any] = {**WORDS, "stack": "megatron-core", "dp": 8, "ep": 8}
    found = predict(QWEN, "h100-sxm", **words)
    (rows,) = expert_rows(found.kernels, found.run)
    missed = np.prod([(112 - i) / (128 - i) for i in range(8)])
    assert rows.sent_by_rank == pytest.approx(4096 * 8 * (1 - missed))
    assert (rows.once_a_rank, rows.computed_by_rank) == (True, 4096 * 8)
    assert "rows (a token once to a rank) and computes" in rows.sentence("uniform")


def test_where_each_rank_has_all_experts_there_is_nothing_to_say() -> None:
    words: dict[str, Any] = {**WORDS, "dp": 8}
    found = predict(QWEN, "h100-sxm", **words)
    assert not expert_rows(found.kernels, found.run)
