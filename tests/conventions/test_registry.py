"""The registry: names, refusals, what is left unseen, and one formula read three ways."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from calc.ask.registry import QUANTITIES
from calc.conventions import ALIASES, CONVENTIONS, Convention, compare, find, flops
from calc.errors import Refused
from calc.spec import Embedding, Shorthand
from calc.spec.resizing import symbolic, with_sizes
from calc.spec.run import Run
from tests.conventions.shapes import LLAMA_3, gpt, gpt_oss_20b, train

GPT = gpt(64, 3, 4, 1000)
WINDOWED = Shorthand(
    d_model=64,
    n_layers=2,
    n_heads=4,
    n_kv_heads=2,
    d_head=24,
    d_ff=96,
    vocab_size=99,
    gated=True,
    position="rope",
    window=5,
).expand()
EVERY = pytest.mark.parametrize("convention", CONVENTIONS, ids=lambda convention: convention.name)


def test_names_are_distinct_and_found() -> None:
    names = [convention.name for convention in CONVENTIONS]
    assert len(set(names)) == len(names)
    assert all(find(name).name == name for name in names)
    assert find("full") is find("torch")
    with pytest.raises(Refused, match=r"convention: expected one of torch, causal-half.* full, found nanoflop"):
        find("nanoflop")


@EVERY
def test_everything_is_documented(convention: Convention) -> None:
    for text in (convention.title, convention.formula, convention.source, convention.counts):
        assert text
        assert "\n" not in text
    page = (Path(__file__).parents[2] / "docs" / "conventions.md").read_text()
    assert f"`{convention.name}`" in page
    assert all(f"`{alias}`" in page for alias in ALIASES)


@EVERY
def test_undefined_phases_and_modes_are_refused(convention: Convention) -> None:
    if "decode" not in convention.phases:
        with pytest.raises(Refused, match=rf"phase: expected .*training under {convention.name}, found decode"):
            flops(GPT, Run(phase="decode", convention=convention.name))
    if "full-early-stop" not in convention.checkpointing:
        with pytest.raises(Refused, match=rf"checkpointing: expected none.* under {convention.name}"):
            flops(GPT, train(convention.name, 8, checkpointing="full-early-stop"))


@EVERY
def test_total_is_the_sum_and_scales_with_the_batch(convention: Convention) -> None:
    for phase in convention.phases:
        one = flops(GPT, Run(batch=1, seq=12, context=12, phase=phase, convention=convention.name))
        three = flops(GPT, Run(batch=3, seq=12, context=12, phase=phase, convention=convention.name))
        assert one.total == one.linear + one.attention + one.other
        assert isinstance(one.total, int)
        assert three.total == 3 * one.total


@EVERY
@pytest.mark.parametrize("spec", [GPT, WINDOWED], ids=["plain", "windowed"])
def test_ints_symbols_and_arrays_agree(convention: Convention, spec) -> None:
    formula, values = symbolic(spec)
    widths = np.array([1.0, 2.0, 3.0]) * spec.d_model
    for phase in convention.phases:
        for checkpointing in convention.checkpointing if phase == "training" else ("none",):
            query = Run(
                batch=2, seq=12, context=9, phase=phase, convention=convention.name, checkpointing=checkpointing
            )
            exact = flops(spec, query).total
            assert flops(formula, query).total.subs(values) == exact
            swept = flops(with_sizes(spec, {"d_model": widths}), query).total
            assert swept[0] == pytest.approx(exact, rel=1e-12)
            wide = with_sizes(spec, {"d_model": 3 * spec.d_model})
            assert swept[2] == pytest.approx(flops(wide, query).total, rel=1e-12)


@pytest.mark.parametrize(("seq", "window"), [(1, None), (2, None), (7, None), (8, 3), (8, 8), (3, 8)])
def test_causal_exact_counts_the_pairs_the_mask_keeps(seq: int, window: int | None) -> None:
    spec = gpt(64, 2, 4, 100, window=window)
    kept = sum(1 for i in range(seq) for j in range(seq) if j <= i and (window is None or i - j < window))
    heads = 2 * spec.d_model
    exact = flops(spec, Run(seq=seq, convention="causal-exact"))
    assert exact.attention == 4 * heads * kept
    full = flops(spec, Run(seq=seq, convention="torch"))
    assert full.attention == 4 * heads * seq**2
    assert full.linear == exact.linear
    hidden = 0 if window is None else max(seq - window, 0)
    assert flops(spec, Run(seq=seq, convention="causal-half")).attention == 2 * heads * (seq**2 - hidden**2)


def test_decode_has_nothing_to_halve() -> None:
    counts = {
        flops(GPT, Run(batch=2, context=511, phase="decode", convention=name)).total
        for name in ("torch", "causal-half", "causal-exact")
    }
    assert len(counts) == 1
    assert flops(GPT, Run(context=511, phase="decode")).attention == 4 * 3 * 64 * 512


def test_compare_lists_every_convention_with_a_count_or_a_reason() -> None:
    rows = compare(LLAMA_3["8B"], train("palm", 8192, checkpointing="full"))
    assert [row.convention for row in rows] == list(CONVENTIONS)
    assert all((row.flops is None) == (row.ratio is None) == bool(row.reason) for row in rows)
    assert rows[0].ratio == 1
    assert {row.convention.name for row in rows if row.flops} == {
        "torch",
        "causal-half",
        "causal-exact",
        "lecture",
        "megatron",
        "llm-foundry",
    }


def test_a_mixture_of_experts_has_no_chinchilla_count() -> None:
    with pytest.raises(Refused, match="one dense block a layer for chinchilla"):
        flops(gpt_oss_20b(), train("chinchilla", 16))


def test_caveats_name_what_a_formula_does_not_see() -> None:
    assert find("torch").caveats(gpt_oss_20b()) == ()
    assert find("megatron").caveats(GPT) == ()
    lecture = find("lecture").caveats
    assert not any("shares the embedding" in text for text in lecture(GPT))
    assert any("shares the embedding" in text for text in find("lecture").params_caveats(GPT))
    assert any("own" in text for text in find("megatron").params_caveats(LLAMA_3["8B"]))
    llama = " ".join(lecture(LLAMA_3["8B"]))
    assert all(word in llama for word in ("gated", "d_ff is 14336", "fewer key and value heads"))
    oss = " ".join(lecture(gpt_oss_20b()))
    assert all(word in oss for word in ("mixture of experts", "n_heads * d_head is 4096", "window"))
    assert "visited all 32; it visits 4" in find("palm").caveats(gpt_oss_20b())[0]


@pytest.mark.parametrize("name", ["lecture", "megatron", "deepseek", "chinchilla"])
def test_a_factorised_embedding_is_a_caveat(name: str) -> None:
    spec = GPT.model_copy(update={"embedding": Embedding(d_embed=32)})
    assert "the embedding is 32 wide; the formula takes d_model" in find(name).caveats(spec)


@EVERY
def test_caveats_say_nothing_of_arrays(convention: Convention) -> None:
    swept = with_sizes(WINDOWED, {"d_model": np.array([64, 128]), "d_ff": np.array([96, 96])})
    told = {*convention.caveats(swept), *convention.params_caveats(swept)}
    assert told <= {*convention.caveats(WINDOWED), *convention.params_caveats(WINDOWED)}


def test_quantities_follow_the_convention() -> None:
    params = next(quantity for quantity in QUANTITIES if quantity.name == "params")
    query = Run(convention="lecture")
    assert sum(params.compute(GPT, query).values()) == 2 * 1000 * 64 + 12 * 3 * 64**2
    assert sum(params.compute(GPT, query.changed(convention="palm")).values()) == sum(
        params.compute(GPT, Run()).values()
    )
