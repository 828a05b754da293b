"""Plans that cannot be, and the sizes of plans as columns of a sweep and as answers."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

import calc
from calc.architectures.models import load_model
from calc.ask.estimate import estimate
from calc.ask.solve import NoSolution, solve
from calc.errors import Refused
from calc.memory.sharding import held_chunks
from calc.memory.totals import memory_ranks
from calc.memory.training import TrainingRank
from calc.quantities.parameters import parameters
from calc.spec import Attention, BlockIndexer, LayerGroup, Lora, Mlp, ModelSpec, NGrams
from calc.spec.run import PLAN_SIZES, ExecutionName, Run
from calc.time import predict
from calc.time.schedule.orders import ORDERS
from calc.time.step.timed_run import timed_run
from tests.conventions.shapes import LLAMA_3, gpt

GIB = 2**30
SMALL = gpt(192, 6, 6, 1000)
GROUPED = gpt(192, 6, 6, 1000, n_kv_heads=2)
MIXTRAL = calc.load_model("mixtral-8x7b")
MASKED = ModelSpec(
    d_model=96,
    vocab_size=1000,
    max_seq_len=128,
    layers=(LayerGroup(count=2, mixer=Attention(n_heads=4, dynamic_mask=64), channel=Mlp()),),
)
INDEXED = MASKED.model_copy(
    update={
        "layers": (
            LayerGroup(
                count=2,
                mixer=Attention(n_heads=4, indexer=BlockIndexer(n_heads=2, d_head=24, rate=4, budget=8)),
                channel=Mlp(),
            ),
        )
    }
)
HASHED = INDEXED.model_copy(
    update={
        "n_streams": 2,
        "layers": (
            LayerGroup(
                count=2,
                channel=Mlp(),
                ngrams=NGrams(rows=10, d_ngram=4, n=2, heads=(5, 3), multipliers=(1, 3), end=0),
            ),
        ),
    }
)


@pytest.mark.parametrize(
    ("spec", "plan", "field", "expected"),
    [
        (SMALL, {"tp": 4}, "tp", "a divisor of n_heads = 6"),
        (gpt(192, 6, 6, 1000, d_ff=100), {"tp": 3}, "tp", "a divisor of d_ff = 100"),
        (gpt(100, 6, 6, 1000, d_head=8), {"tp": 6}, "tp", "a divisor of d_ff = 400"),
        (gpt(240, 6, 12, 1000, n_kv_heads=4), {"tp": 6}, "tp", "a divisor or a multiple of n_kv_heads = 4"),
        (calc.load_model("bert-base"), {"tp": 5}, "tp", "a divisor of n_heads = 12"),
        (SMALL, {"cp": 3}, "cp", "a divisor of seq = 128"),
        (SMALL, {"cp": 1_073_741_824}, "cp", "a divisor of seq = 128"),
        (MASKED, {"tp": 2}, "tp", "1 where the values of all heads make a mask (dynamic_mask)"),
        (MASKED, {"cp": 2}, "cp", "1 where keys' values make a mask (dynamic_mask), which ranks do not pass on"),
        (INDEXED, {"cp": 2}, "cp", "1 where an indexer chooses among means of keys, which ranks do not pass on"),
        (HASHED, {"cp": 2}, "cp", "1 beside hashed n-grams, whose first tokens are another rank's"),
        (
            HASHED,
            {"tp": 2},
            "tp",
            "1 beside hashed n-grams, of whose tables it is not written down how ranks divide them",
        ),
        (SMALL, {"pp": 7}, "pp", "at most as many stages as layers (6)"),
        (SMALL, {"pp": 3, "interleave": 3}, "interleave", "at most 8 pieces, one for each layer, embedding and head"),
        (SMALL, {"dp": 4, "shard": 3}, "shard", "a divisor of dp * cp = 4"),
        (SMALL, {"interleave": 2}, "interleave", "1 without a pipeline"),
        (SMALL, {"pp": 2, "stages": (4, 4)}, "stages", "2 numbers that add up to 6 layers"),
        (SMALL, {"stages": (3, 3)}, "stages", "none without a pipeline"),
        (SMALL, {"ep": 2, "dp": 2}, "ep", "1 for a model without experts"),
        (MIXTRAL, {"ep": 3, "dp": 3}, "ep", "a divisor of n_experts = 8"),
        (MIXTRAL, {"ep": 4, "dp": 2}, "ep", "a divisor of dp * cp = 2"),
        (MIXTRAL, {"ep": 4, "tp": 4}, "ep", "a divisor of dp * cp = 1 (times tp with --expert-tp 1)"),
        (
            MIXTRAL,
            {"ep": 4, "tp": 4, "mode": "inference"},
            "ep",
            "a divisor of dp * cp = 1 (`serve` has servers whose tensor-parallel ranks share out experts)",
        ),
        (calc.load_model("transformer-base"), {"pp": 2}, "pp", "1 for a model with towers or shared layers"),
        (SMALL, {"frozen": "nf4:g64"}, "frozen dtype", "none without an adapter, beside which all else is frozen"),
    ],
)
def test_what_does_not_divide_is_refused(spec: ModelSpec, plan: dict[str, Any], field: str, expected: str) -> None:
    with pytest.raises(Refused) as error:
        estimate(spec, "memory.peak", seq=128, **plan)
    assert (error.value.field, error.value.expected) == (field, expected)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("dp", 0),
        ("tp", -1),
        ("pp", "2"),
        ("cp", True),
        ("zero", 4),
        ("zero", -1),
        ("micro_batches", 0),
        ("dropout", 1.0),
    ],
)
def test_what_is_no_size_of_a_plan(field: str, value: Any) -> None:
    with pytest.raises(Refused) as error:
        Run(**{field: value})
    assert error.value.field == field


def test_batch_0_is_refused() -> None:
    with pytest.raises(Refused, match="batch"):
        estimate(SMALL, "memory.peak", batch=0)


def test_modules_that_predict_further_tokens_are_not_weighed_in_silence() -> None:
    """What they keep is not described: a rank of theirs is refused, and a time says what its bytes leave out."""
    spec = load_model("deepseek-v3")
    run = timed_run(spec, phase="training", seq=512, recipe="bf16-master", mtp=True)
    with pytest.raises(Refused, match="mtp: expected false: what modules that predict further tokens keep"):
        memory_ranks(spec, run)
    (note,) = (each for each in predict(spec, "h100-sxm", run).notes if "further tokens" in each)
    assert note == "memory leaves out what modules that predict further tokens keep for backward"


def activations(spec: ModelSpec, **plan: Any) -> int:
    """Bytes that a rank keeps of 512 tokens, without those of the loss."""
    return estimate(spec, "memory.total", seq=512, **plan).terms["activations"]


def test_casts_of_weights_are_divided_as_weights_are() -> None:
    """Autocast's copies in bf16 of all matrices: whole on context-parallel ranks, of experts spread as these are."""
    spec, width = LLAMA_3["8B"], 4096
    matrices = 8_030_261_248 - 128_256 * width - 65 * width
    assert 2 * activations(spec, cp=2) - activations(spec) == 2 * matrices
    experts = parameters(MIXTRAL)["routed_expert"]
    assert activations(MIXTRAL, dp=8) - activations(MIXTRAL, dp=8, ep=8) == 2 * experts * 7 // 8


def test_what_is_quantized_beside_an_adapter_is_not_cast() -> None:
    """QLoRA: kernels read the four bits themselves, and autograd keeps no copy of the frozen weights."""
    spec = LLAMA_3["8B"].model_copy(update={"adapter": Lora(rank=8, targets=("q_proj", "v_proj"))})
    whole = activations(spec)
    layers = 32 * (2 * 4096 * (4096 + 1024) + 3 * 4096 * 14336) + 128_256 * 4096
    layers -= 4096 * (4096 + 2 * 1024)  # the first layer's queries, keys and values, whose input needs no gradient
    for frozen in ("nf4:g64", "bf16"):
        assert whole - activations(spec, frozen=frozen) == 2 * layers
    assert activations(spec, frozen="fp32") == whole


@pytest.mark.parametrize("micro_batches", [1, 3, 8])
@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "zero-bubble"])
def test_a_schedule_holds_as_many_micro_batches_as_its_order_says(schedule: Any, micro_batches: int) -> None:
    """The most passes forward that no pass back has followed, on every stage."""
    plan: dict[str, Any] = {"pp": 4, "micro_batches": micro_batches, "schedule": schedule}
    order = [ORDERS[schedule](stage, 4, micro_batches, 1) for stage in range(4)]
    found = [held_chunks(Run(**plan), stage) for stage in range(4)]
    change = {"forward": 1, "backward": -1, "weights": 0}
    assert found == [max(accumulate(change[task.what] for task in stage)) for stage in order]


def test_gpipe_holds_every_micro_batch() -> None:
    one, eight = (activations(LLAMA_3["8B"], pp=4, micro_batches=n, schedule="gpipe") for n in (1, 8))
    assert one == activations(LLAMA_3["8B"], pp=4, micro_batches=1)
    assert eight > 4 * one


def test_dualpipe_holds_parameters_twice_and_one_activation_more() -> None:
    """DeepSeek-V3 (arXiv:2412.19437), table 2: 2 times the parameters, activations of PP + 1 where others have PP."""
    plan = {"pp": 4, "micro_batches": 16, "recipe": "bf16", "seq": 512}
    spec = gpt(192, 8, 6, 1000).model_copy(update={"head": None})
    both = memory_ranks(spec, Run(schedule="dualpipe", **plan))
    one = memory_ranks(spec, Run(**plan))
    assert [rank.stage for rank in both] == ["first and last", "stage 1 and stage 2"]
    # Outside layers the first rank has what the first and the last have.
    assert both[1].terms["weights"] == one[1].terms["weights"] + one[2].terms["weights"] == 2 * one[1].terms["weights"]
    assert both[0].terms["weights"] == one[0].terms["weights"] + one[3].terms["weights"]
    kept = [stages[1].activations.layers for stages in (both, one) if isinstance(stages[1], TrainingRank)]
    assert kept[0] * 3 == 5 * kept[1]  # stage 1 of 4 holds 3
    with pytest.raises(Refused, match="an even number of stages"):
        memory_ranks(spec, Run(schedule="dualpipe", pp=3))
    with pytest.raises(Refused, match="two for each stage or more"):
        memory_ranks(spec, Run(schedule="dualpipe", pp=4, micro_batches=6))


@pytest.mark.parametrize("spec", [SMALL, MIXTRAL, LLAMA_3["8B"]], ids=["small", "mixtral", "llama"])
@pytest.mark.parametrize("plan", [{}, {"dp": 8, "zero": 2}, {"dp": 8, "zero": 3}, {"pp": 2, "dp": 2, "zero": 3}])
@pytest.mark.parametrize("execution", ["sdpa", "compiled"])
def test_a_term_is_the_most_that_is_live_of_it(spec: ModelSpec, plan: dict[str, Any], execution: ExecutionName) -> None:
    for rank in memory_ranks(spec, Run(seq=128, recipe="bf16-fsdp", execution=execution, **plan)):
        for name, term in rank.terms.items():
            assert term == max(live[name] for live in rank.moments.values())


@st.composite
def columns(draw: st.DrawFn) -> dict[str, list[int]]:
    """Rows of sizes of plans, possible and not."""
    choices = {"dp": [1, 2, 3, 8], "tp": [1, 2, 3, 4, 6], "pp": [1, 2, 4, 7], "cp": [1, 2], "zero": [0, 1, 2, 3]}
    choices |= {
        "micro_batches": [1, 2, 9],
        "interleave": [1, 2],
        "batch": [1, 3],
        "seq": [64, 100],
        "loss_chunks": [1, 4],
    }
    names = draw(st.lists(st.sampled_from(sorted(choices)), min_size=2, unique=True))
    n = draw(st.integers(1, 5))
    return {name: draw(st.lists(st.sampled_from(choices[name]), min_size=n, max_size=n)) for name in names}


@given(rows=columns(), quantity=st.sampled_from(["memory.peak", "memory.total"]))
def test_a_sweep_gives_what_each_plan_gives_and_nan_where_there_is_none(
    rows: dict[str, list[int]], quantity: str
) -> None:
    base = Run(recipe="bf16-fsdp")
    swept = calc.sweep(GROUPED, [quantity], {name: numpy.array(column) for name, column in rows.items()}, run=base)
    for i, value in enumerate(swept[quantity]):
        one: dict[str, Any] = {name: column[i] for name, column in rows.items()}
        plan = {name: one.pop(name) for name in PLAN_SIZES if name in one}
        try:
            exact = estimate(GROUPED, quantity, run=base.changed(**plan), **one).value
        except Refused:
            assert numpy.isnan(value)
        else:
            assert value == pytest.approx(exact, rel=1e-12)


def test_sizes_of_model_and_plan_in_one_sweep() -> None:
    sizes = {"n_layers": [4, 4, 6], "n_heads": [4, 6, 6], "tp": [4, 4, 3], "pp": [2, 2, 8]}
    swept = calc.sweep(SMALL, ["memory.peak"], {name: numpy.array(each) for name, each in sizes.items()}, seq=64)
    exact = estimate(gpt(192, 4, 4, 1000), "memory.peak", seq=64, tp=4, pp=2).value
    assert swept["memory.peak"][0] == pytest.approx(exact, rel=1e-12)
    assert numpy.isnan(swept["memory.peak"][1:]).all()


def answer(symbol: str, gib: float, plan: Run, **options: Any) -> int:
    """What `solve` finds for a Llama 3 8B."""
    found = solve(LLAMA_3["8B"], "memory.peak", gib * GIB, symbol, budget=True, seq=8192, run=plan, **options)
    return found.candidates[0].sizes[symbol]


def peak(plan: Run, **options: Any) -> float:
    return estimate(LLAMA_3["8B"], "memory.peak", seq=8192, run=plan, **options).value / GIB


@pytest.mark.parametrize(
    ("symbol", "plan"),
    [("zero", Run(dp=8)), ("dp", Run(zero=3)), ("dp", Run(zero=1, tp=2)), ("tp", Run()), ("pp", Run())],
)
def test_the_smallest_plan_that_fits(symbol: str, plan: Run) -> None:
    x = answer(symbol, 50, plan, checkpointing="full")
    assert peak(plan.changed(**{symbol: x}), checkpointing="full") <= 50
    if symbol in ("dp", "zero"):
        assert peak(plan.changed(**{symbol: x - 1}), checkpointing="full") > 50


def test_the_most_micro_batches_that_fit() -> None:
    """A pipeline holds no more than its length, beside that gradients, once more micro-batches follow, and of each that
    follows a tensor on the first stage to receive a gradient into."""
    plan = Run(pp=4, recipe="bf16")
    five, more = (peak(plan.changed(micro_batches=n)) for n in (5, 64))
    assert (more - five) * GIB == 59 * 2 * 8192 * 4096
    assert five > peak(plan.changed(micro_batches=4)) + 2 * 8192 * 4096 / GIB
    budget = peak(plan.changed(micro_batches=3))
    assert answer("micro_batches", budget, plan) == 3


def test_no_answer_and_no_question() -> None:
    with pytest.raises(NoSolution, match="no zero fits: the least it comes to is"):
        answer("zero", 1, Run(dp=8))
    assert answer("dp", 1000, Run(zero=3)) == 1
    with pytest.raises(Refused, match=r"a size that memory.peak of model depends on, found dp"):
        answer("dp", 70, Run())
    with pytest.raises(Refused, match="found dp"):
        solve(LLAMA_3["8B"], "params", 7e9, "dp", budget=True)
    with pytest.raises(Refused, match="a budget"):
        solve(LLAMA_3["8B"], "memory.peak", 7e10, "dp", zero=3)


@pytest.mark.parametrize(
    ("micro_batches", "pp", "pieces", "held"),
    [
        (7, 4, 2, [14, 12, 10, 8]),
        (6, 4, 2, [12, 11, 9, 7]),
        (8, 4, 2, [11, 9, 7, 5]),
        (2, 4, 2, [4, 4, 4, 3]),
        (12, 8, 4, [48, 48, 47, 45, 43, 41, 39, 37]),
    ],
)
def test_interleaved_rounds_are_those_of_torch(micro_batches: int, pp: int, pieces: int, held: list[int]) -> None:
    """Pieces of micro-batches in flight, as torch.distributed.pipelining's schedule orders them."""
    from torch.distributed.pipelining.schedules import ScheduleInterleaved1F1B

    run = Run(pp=pp, interleave=pieces, micro_batches=micro_batches)
    assert [held_chunks(run, rank) for rank in range(pp)] == held
    schedule = object.__new__(ScheduleInterleaved1F1B)
    rounds = max(1, micro_batches // pp)
    known = {"_n_microbatches": micro_batches, "pp_group_size": pp, "n_local_stages": pieces, "rank": 0}
    known |= {"number_of_rounds": rounds, "microbatches_per_round": micro_batches // rounds}
    for name, value in known.items():
        setattr(schedule, name, value)
    for rank, most in enumerate(held):
        order = [action.computation_type.name for action in schedule._calculate_single_rank_operations(rank) if action]
        change = {"FORWARD": 1, "FULL_BACKWARD": -1, "BACKWARD_INPUT": -1, "BACKWARD_WEIGHT": 0}
        assert max(accumulate(change[what] for what in order)) == most


def test_pieces_of_stages_ask_megatron_for_whole_rounds() -> None:
    plan: dict[str, Any] = {"pp": 4, "interleave": 2, "stack": "megatron-core"}
    assert memory_ranks(LLAMA_3["8B"], Run(**plan, micro_batches=8))
    said = "micro_batches: expected a multiple of pp = 4 under --stack megatron-core with pieces of stages, found 7"
    with pytest.raises(Refused, match=said):
        memory_ranks(LLAMA_3["8B"], Run(**plan, micro_batches=7))


def test_gpipe_keeps_the_loss_of_every_micro_batch() -> None:
    """Log-probabilities in fp32 of all, since none has gone back when the last one's loss is computed."""
    last = [memory_ranks(LLAMA_3["8B"], Run(seq=512, pp=2, micro_batches=n, schedule="gpipe"))[-1] for n in (1, 8)]
    one, eight = (rank.moments["loss"]["activations"] + rank.moments["loss"]["logits"] for rank in last)
    assert eight - one > 7 * 4 * 512 * 128_256
