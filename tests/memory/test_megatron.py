"""The closed forms of Korthikanti et al. 2022 (arXiv:2205.05198), its figures, and Megatron-LM's own estimate."""

from __future__ import annotations

import csv
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calc.errors import Refused
from calc.memory.training import ranks
from calc.spec import Attention, ModelSpec
from calc.spec.run import Checkpointing, Run
from tests import reference
from tests.conventions.shapes import LLAMA_3, gpt

GIB = 2**30
MEGATRON = Run(execution="megatron", recipe="bf16-master")

WAYS: dict[str, tuple[bool, Checkpointing]] = {
    "tensor parallel t": (False, "none"),
    "tensor + sequence parallel": (True, "none"),
    "tensor parallel + selective recompute": (False, "selective"),
    "tensor + sequence parallel + selective recompute": (True, "selective"),
    "full recompute (input of layer only)": (True, "full"),
}
"""case of korthikanti2022_formulas.csv -> (sequence parallelism, checkpointing)."""


def rows(name: str) -> list[dict[str, str]]:
    with (reference.folder() / "measured" / "training" / name).open() as file:
        return list(csv.DictReader(file))


def formula(case: str) -> str:
    """The first formula of a case, without the words behind it."""
    found = next(row for row in rows("korthikanti2022_formulas.csv") if row["case"] == case)
    return found["bytes_or_flops"].split(" ")[0]


def first(spec: ModelSpec, plan: Run, batch: int, seq: int, checkpointing: Checkpointing = "none") -> Any:
    """The first pipeline rank."""
    return ranks(spec, Run(batch=batch, seq=seq).load(), plan, checkpointing)[0]


@st.composite
def letters(draw: st.DrawFn) -> dict[str, int]:
    """Sizes by the paper's letters, with heads that t divides and layers that p * m divides."""
    t, p, m = draw(st.sampled_from([1, 2, 4, 8])), draw(st.integers(1, 4)), draw(st.integers(1, 3))
    m = m if p > 1 else 1
    a = t * draw(st.integers(1, 8))
    sizes = {"s": 8 * draw(st.integers(1, 64)), "b": draw(st.integers(1, 4)), "v": 8 * draw(st.integers(1, 500))}
    h, layers = a * draw(st.integers(1, 32)), p * m * draw(st.integers(1, 3))
    return {"t": t, "p": p, "m": m, "a": a, "h": h, "L": layers, **sizes}


def model(n: dict[str, int]) -> ModelSpec:
    return gpt(n["h"], n["L"], n["a"], n["v"], max_seq_len=n["s"])


def value(text: str, n: dict[str, int]) -> Fraction:
    return eval(text, {"__builtins__": {}}, {name: Fraction(size) for name, size in n.items()})


@given(n=letters())
@pytest.mark.parametrize("case", WAYS)
def test_layers_are_the_closed_form(case: str, n: dict[str, int]) -> None:
    sequence, checkpointing = WAYS[case]
    plan = MEGATRON.changed(tp=n["t"], pp=n["p"], interleave=n["m"], sequence_parallel=sequence)
    kept = first(model(n), plan, n["b"], n["s"], checkpointing).activations.layers
    stage = Fraction(n["L"]) * (1 + Fraction(n["p"] - 1, n["p"] * n["m"]) if n["m"] > 1 else 1)
    assert kept == value(formula(case), n) * stage


@given(n=letters())
def test_without_parallelism(n: dict[str, int]) -> None:
    kept = first(model(n), MEGATRON, n["b"], n["s"]).activations.layers
    assert kept == value(formula("none, no parallelism"), n) * n["L"]


@given(n=letters())
def test_first_stage_and_its_dropout(n: dict[str, int]) -> None:
    plan = MEGATRON.changed(tp=n["t"], pp=n["p"], interleave=n["m"], sequence_parallel=True)
    kept = first(model(n), plan, n["b"], n["s"]).activations
    interleaved = 1 + Fraction(n["p"] - 1, n["p"] * n["m"]) if n["m"] > 1 else 1
    assert kept.layers == value(formula("first-stage pipeline total (1F1B)"), n) * interleaved
    if n["p"] > 1:
        assert kept.outside == value(formula("embedding dropout (input)"), n)


@given(n=letters())
def test_norm_head_and_loss_of_one_stage(n: dict[str, int]) -> None:
    kept = first(model(n), MEGATRON.changed(tp=n["t"], sequence_parallel=True), n["b"], n["s"]).activations
    dropout = value("s*b*h/t", n)
    end = value(formula("final layernorm + output layer + CE logits fp32"), n)
    assert kept.outside + kept.logits == dropout + end


def figure(row: dict[str, str]) -> tuple[ModelSpec, Run, int, int]:
    """Model, plan, micro-batch and sequence of a row of korthikanti2022.csv."""
    n = {name: int(row[name]) for name in ("hidden", "layers", "heads", "vocab", "tp", "pp", "interleave")}
    spec = gpt(n["hidden"], n["layers"], n["heads"], n["vocab"], max_seq_len=int(row["seq_len"]))
    plan = MEGATRON.changed(tp=n["tp"], pp=n["pp"], interleave=n["interleave"], sequence_parallel=False)
    return spec, plan, int(row["micro_batch"]), int(row["seq_len"])


@pytest.mark.parametrize(("name", "more"), [("22B", 0.0199), ("530B", 0.0919)])
def test_figure_1(name: str, more: float) -> None:
    """Activations exactly. Its parameters are 12 L h^2 alone: `more` is what it leaves out, embeddings, biases, norms,
    of which the first of 35 stages holds the whole token table."""
    row = next(row for row in rows("korthikanti2022.csv") if row["model"] == name)
    spec, plan, batch, seq = figure(row)
    rank = first(spec, plan, batch, seq)
    assert rank.activations.layers / GIB == float(row["fig1_act_gib_none"])
    both = first(spec, plan.changed(sequence_parallel=True), batch, seq, "selective")
    assert both.activations.layers / GIB == pytest.approx(float(row["fig1_act_gib_seqpar_selective"]), rel=1e-12)
    held = rank.terms["weights"] + rank.terms["gradients"] + rank.terms["optimizer"]
    assert held / GIB / float(row["fig1_params_opt_gib"]) - 1 == pytest.approx(more, abs=1e-4)
    plain = Fraction(18 * 12 * spec.n_layers * spec.d_model**2, plan.tp * plan.pp)
    assert plain == Fraction(row["fig1_params_opt_gib"]) * GIB


@pytest.mark.parametrize("name", ["22B", "530B"])
def test_figure_7(name: str) -> None:
    """Shares of what tensor parallelism alone keeps, within 0.15 percentage points: read off bars."""
    row = next(row for row in rows("korthikanti2022.csv") if row["model"] == name)
    spec, plan, batch, seq = figure(row)
    whole = first(spec, plan, batch, seq).activations.layers
    for column, sequence, checkpointing in (
        ("seqpar", True, "none"),
        ("selective", False, "selective"),
        ("both", True, "selective"),
        ("full", False, "full"),
    ):
        kept = first(spec, plan.changed(sequence_parallel=sequence), batch, seq, checkpointing).activations.layers
        assert 100 * kept / whole == pytest.approx(float(row[f"fig7_pct_{column}"]), abs=0.15)


@pytest.mark.parametrize(
    ("name", "sequence", "checkpointing", "error"),
    [
        ("22B", True, "selective", 0.00008),
        ("22B", False, "selective", 0.0002),
        ("22B", False, "full", 0.0),
        ("22B", True, "none", 0.00002),
        ("530B", True, "selective", 0.00003),
    ],
)
def test_the_tape_agrees(name: str, sequence: bool, checkpointing: Checkpointing, error: float) -> None:
    """PyTorch's own operations, softmax in 16 bits, gelu in one kernel, dropout: the form, and `error` more for the
    norms' means and deviations, which it leaves out as small. Selective recomputes attention from q, k and v."""
    row = next(row for row in rows("korthikanti2022.csv") if row["model"] == name)
    spec, plan, batch, seq = figure(row)
    group = spec.layers[0]
    assert isinstance(group.mixer, Attention)
    mixer = group.mixer.model_copy(update={"softmax": "model"})
    channel = group.channel.model_copy(update={"activation": "gelu"})
    changed = {"mixer": mixer, "channel": channel, "residual_dropout": True}
    spec = spec.model_copy(update={"layers": (group.model_copy(update=changed),)})
    plan = plan.changed(sequence_parallel=sequence)
    form = first(spec, plan, batch, seq, checkpointing).activations.layers
    ours = first(spec, plan.changed(execution="eager", dropout=0.1), batch, seq, checkpointing).activations.layers
    assert ours / form - 1 == pytest.approx(error, abs=2e-5)


def megatron_lm(spec: ModelSpec, plan: Run, batch: int, seq: int, distributed: bool) -> float:
    """Bytes that Megatron-LM reports for the first stage, with sequence parallelism and selective recomputation.

    Megatron-LM, megatron/training/theoretical_memory_usage.py (2025): the stage's layers without biases and the token
    table, 18 bytes each or 6 + 12 / dp; 18 + 4 d_ff / d_model bytes a layer, token indices and embedding dropout.
    """
    width, layers, tokens = spec.d_model, spec.n_layers, batch * seq
    layer = 2 * width * (4 * width + 2) + 4 * width * width
    shard = ((layer * layers + 2 * width) / plan.pp + spec.vocab_size * width) / plan.tp
    kept = tokens * width * 34 * layers + 8 * tokens * plan.pp + tokens * width * plan.pp
    return shard * (6 + 12 / plan.dp if distributed else 18) + kept / plan.tp


@pytest.mark.parametrize(("zero", "dp", "error"), [(0, 1, 0.0077), (1, 8, 0.0063), (1, 64, 0.0059)])
def test_gpt_3_as_megatron_lm_estimates_it(zero: int, dp: int, error: float) -> None:
    """GPT-3 175B at TP 8, PP 8: ours has biases too, and on every rank of the first stage the whole position table."""
    spec = gpt(12288, 96, 96)
    plan = MEGATRON.changed(tp=8, pp=8, dp=dp, zero=zero)
    theirs = megatron_lm(spec, plan, 1, 2048, distributed=bool(zero))
    ours = first(spec, plan, 1, 2048, "selective").total
    assert ours / theirs - 1 == pytest.approx(error, abs=1e-4)


@pytest.mark.parametrize(
    ("spec", "plan", "checkpointing", "field"),
    [
        (LLAMA_3["8B"], MEGATRON, "none", "execution"),
        (gpt(512, 2, 8, d_ff=1024), MEGATRON, "none", "execution"),
        (gpt(512, 2, 8, n_kv_heads=2), MEGATRON, "none", "execution"),
        (gpt(512, 2, 8), MEGATRON.changed(cp=2), "none", "cp"),
        (gpt(512, 2, 8), MEGATRON.changed(recompute=("norm",)), "none", "recompute"),
        (gpt(512, 2, 8), MEGATRON.changed(recipe="fp32"), "none", "recipe"),
        (gpt(512, 2, 8), MEGATRON, "selective-op", "checkpointing"),
    ],
)
def test_what_the_form_has_no_letters_for(spec: ModelSpec, plan: Run, checkpointing: Checkpointing, field: str) -> None:
    with pytest.raises(Refused) as error:
        first(spec, plan, 1, 64, checkpointing)
    assert error.value.field == field
