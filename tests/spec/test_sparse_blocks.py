"""Attention to blocks of long texts: what it computes, one by one and in columns, and what it refuses."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy
import pytest
from pydantic import ValidationError

import calc
from calc.errors import Refused
from calc.memory.conditions import check
from calc.quantities.flops import forward, training
from calc.spec import Attention, Embedding, LayerGroup, Mlp, ModelSpec, SparseBlocks
from calc.spec.load import Load
from calc.spec.run import Run


def model(mixer: Attention, embedding: Embedding) -> ModelSpec:
    layers = (LayerGroup(count=2, mixer=mixer, channel=Mlp(d_ff=24)),)
    return ModelSpec(d_model=32, vocab_size=50, layers=layers, embedding=embedding)


SPARSE = SparseBlocks(block=2, drawn=1)
PLAIN: dict[str, Any] = {"n_heads": 4, "causal": False, "position": "none", "sparse": SPARSE}
BY_TWO = Embedding(multiple=2, beyond=14)
IN_BLOCKS = model(Attention(**PLAIN), BY_TWO)


@pytest.mark.parametrize("seq", [14, 15, 40])
def test_long_texts_attend_to_blocks_one_by_one_and_in_columns(seq: int) -> None:
    """By hand: the first and the last block see all, those next to them four blocks and the drawn one, others six."""
    filled = seq if seq <= 14 else 2 * -(-seq // 2)
    pairs = seq * seq if seq <= 14 else 2 * (2 * filled + 2 * 5 * 2 + (filled // 2 - 4) * 6 * 2)
    layers, products, batch = 2, 2, 3
    for count, times in ((forward, 1), (training, 3)):
        counted = count(IN_BLOCKS, Load(batch=batch, seq=seq))
        assert counted.attention == times * layers * products * 2 * batch * 32 * pairs
        column = count(IN_BLOCKS, Load(batch=batch, seq=numpy.array([float(seq)] * 2)))
        assert (column.total == counted.total).all()


def test_zeros_for_all_pairs_are_laid_out_but_by_a_compiler() -> None:
    """What is moved grows with the square of a text's length in eager PyTorch, and in proportion to it compiled, but
    for the two blocks that see all."""

    def moved(seq: int, execution: Any) -> float:
        return calc.estimate(IN_BLOCKS, "traffic.forward", seq=seq, dtype="fp32", execution=execution).value

    for execution, second in (("eager", 2 * 4 * 4 * 1000**2), ("compiled", 0)):
        small, middle, large = (moved(seq, execution) for seq in (2000, 3000, 4000))
        # Two layers of four heads, four bytes a number, written once: the second difference of a square is twice it.
        assert large - 2 * middle + small == 2 * second


def test_columns_of_short_and_long_texts_are_refused() -> None:
    with pytest.raises(Refused, match=r"^seq: expected texts that are all of at most 14 tokens, or all longer"):
        training(IN_BLOCKS, Load(seq=numpy.array([14.0, 16.0])))


def test_formulas_are_of_short_texts() -> None:
    assert calc.explain(IN_BLOCKS, "flops.forward", seq=14).estimate.value == forward(IN_BLOCKS, Load(seq=14)).total
    for quantity in ("flops.forward", "memory.total"):
        with pytest.raises(Refused, match=r"^seq: expected at most 14 tokens: longer texts attend to blocks"):
            calc.explain(IN_BLOCKS, quantity, seq=15)
    assert calc.explain(IN_BLOCKS, "params", seq=15).estimate.value > 0


@pytest.mark.parametrize(
    ("changed", "longest"),
    [
        ({"causal": True}, 14),
        ({"sparse": SparseBlocks(block=2, drawn=0)}, 10),
        ({"sparse": SparseBlocks(block=1, drawn=2)}, 9),
    ],
    ids=["to come", "none drawn", "one token"],
)
def test_long_texts_of_which_it_is_not_known_what_they_do(changed: dict[str, Any], longest: int) -> None:
    spec = model(Attention(**PLAIN | changed), Embedding())
    assert training(spec, Load(seq=longest)).total > 0
    with pytest.raises(Refused, match=f"^seq: expected at most {longest} tokens"):
        training(spec, Load(seq=longest + 1))


@pytest.mark.parametrize("more", [{"n_kv_heads": 2}, {"position": "rope"}, {"window": 4}, {"gate": True}])
def test_only_plain_attention_attends_to_blocks(more: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="sparse: expected none"):
        Attention(**PLAIN | more)


def test_texts_in_blocks_are_filled_up_and_hold_no_documents() -> None:
    for field, (multiple, longest) in {"multiple": (4, 14), "beyond": (2, 12)}.items():
        with pytest.raises(ValidationError, match=rf"embedding\.{field}: expected {2 if field == 'multiple' else 14}"):
            model(Attention(**PLAIN), Embedding(multiple=multiple, beyond=longest))
    with pytest.raises(ValidationError, match="beyond: expected null"):
        Embedding(beyond=12)
    with pytest.raises(Refused, match=r"^document:"):
        training(IN_BLOCKS, Load(seq=40, document=20))
    with pytest.raises(Refused, match=r"^n_heads: expected heads of several numbers"):
        training(model(Attention(**PLAIN | {"n_heads": 32}), BY_TWO), Load(seq=40))


def test_ranks_that_divide_a_text_are_refused_where_it_attends_to_blocks() -> None:
    check(IN_BLOCKS, Run(phase="training", batch=2, seq=14, cp=2))
    with pytest.raises(Refused, match=r"^cp: expected 1 where long texts attend to blocks"):
        check(IN_BLOCKS, Run(phase="training", batch=2, seq=40, cp=2))


@pytest.mark.parametrize(
    ("block", "drawn", "seq", "runs"),
    [
        (256, 3, 4096, False),
        (256, 3, 3000, False),
        (256, 3, 3328, True),
        (128, 5, 3072, False),
        (128, 4, 3072, True),
        (64, 3, 4096, True),
        (192, 2, 3072, True),
        (512, 1, 4096, True),
    ],
)
def test_texts_of_which_too_few_blocks_can_be_drawn_are_not_trained_on(
    block: int, drawn: int, seq: int, runs: bool
) -> None:
    """As transformers' own planning of 3,072 and 4,096 tokens has it; beside it, which draws nothing, they are read."""
    sparse = SparseBlocks(block=block, drawn=drawn)
    assert sparse.draws(seq) is runs
    assert list(sparse.draws(numpy.array([seq, 5 * seq]))) == [runs, True]
    plan = _planned(block, drawn, -(-seq // block) * block)
    assert plan is runs


def _planned(block: int, drawn: int, seq: int) -> bool:
    """Whether transformers draws the blocks of each row."""
    from transformers.models.big_bird.modeling_big_bird import BigBirdBlockSparseAttention

    last = 1024 if seq in (1024, 3072, 4096) else -1
    try:
        make = BigBirdBlockSparseAttention._bigbird_block_rand_mask
        make(SimpleNamespace(training=True), seq, seq, block, block, drawn, last_idx=last)
    except ValueError:
        return False
    return True


def test_too_few_blocks_are_said_of_a_training() -> None:
    mixer = Attention(**PLAIN | {"sparse": SparseBlocks(block=256)})
    spec = model(mixer, Embedding(multiple=256, beyond=SparseBlocks(block=256).longest))
    check(spec, Run(phase="forward", mode="inference", batch=1, seq=4096))
    with pytest.raises(Refused, match=r"^seq: expected texts that fill up to neither 3072 nor 4096 tokens"):
        check(spec, Run(phase="training", batch=1, seq=4000))
