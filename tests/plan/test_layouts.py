"""Layouts of Megatron-Core: written, read back, and what they may not be."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import calc
from calc.errors import Refused
from calc.memory.sharding import stages as stages_of
from calc.memory.stage_lengths import lighter_ends, piece_lengths, stage_lengths
from calc.plan.answer import record_of
from calc.plan.checks import possible
from calc.plan.existing import plan_of, question_of, words_of
from calc.plan.export.launch import Launch
from calc.plan.export.registry import tool
from calc.plan.layouts import Layout, cut_in_pieces, layout_text, read_layout
from calc.plan.question import Question
from calc.spec.run import Run
from tests.plan.questions import question

READ = {
    ("Et*2|(tt|)*22t|(tt|)*7mL", 8): Layout(4, (8, 8, 8, 8, 8, 8, 8, 5), 1),
    ("Et|(tt|)*30L", 8): Layout(4, (7, 8, 8, 8, 8, 8, 8, 6), 0),
    ("Et*11|t*11|t*11,|t*10,mL", 4): Layout(1, (11, 11, 11, 10), 1),
    ("E|*2(t|)*2L", 5): Layout(1, (0, 0, 1, 1, 0), 0),
}


@pytest.mark.parametrize(("text", "pp"), READ)
def test_pieces_go_round_the_stages(text: str, pp: int) -> None:
    """The first has the layers of DeepSeek-V3 where a plan has them unasked."""
    assert read_layout(text, pp, "--layout") == READ[text, pp]
    assert stage_lengths(61, 8) == (8, 8, 8, 8, 8, 8, 8, 5)


def test_pieces_that_are_no_whole_number_a_stage() -> None:
    with pytest.raises(Refused, match="as many pieces as pp = 16 divides, found 31"):
        read_layout("Et*3|(tt|)*29mL", 16, "--layout")


@given(st.integers(1, 100), st.integers(2, 16), st.integers(1, 8))
def test_a_layout_is_read_as_it_was_written(layers: int, pp: int, pieces: int) -> None:
    """Every stage has what memory and time take it to have; no piece is empty but the last, which has the head."""
    spec = calc.Shorthand(d_model=64, n_heads=4, n_layers=layers, vocab_size=100, position="rope").expand()
    holds = bool(cut_in_pieces(layers, pp, pieces))
    assert holds == bool(cut_in_pieces(layers, np.array([float(pp)]), np.array([float(pieces)]))[0])
    if pp > layers:
        return  # which is ruled out before it is asked
    dealt, ends = piece_lengths(layers, pp, pieces), bool(lighter_ends(layers, pp, pieces))
    assert sum(dealt) == layers
    assert holds == all(dealt[1 if ends else 0 : -1])
    if holds:
        text = layout_text(spec, Run(pp=pp, interleave=pieces))
        assert read_layout(text, pp, "--layout") == Layout(pieces, stage_lengths(layers, pp, pieces), 0)


@given(st.integers(2, 100), st.integers(2, 16), st.integers(1, 8), st.integers(1, 2))
def test_modules_that_predict_further_count_where_pieces_are_dealt(
    layers: int, pp: int, held: int, further: int
) -> None:
    """The last piece has no more layers than another, and where ends are lighter all pieces are as long with what
    stands there."""
    dealt = piece_lengths(layers, pp, held, further)
    assert sum(dealt) == layers
    assert dealt[-1] <= min(dealt[1:-1], default=layers)
    if lighter_ends(layers, pp, held, further):
        assert {dealt[0] + 1, *dealt[1:-1], dealt[-1] + 1 + further} == {(layers + 2 + further) // (pp * held)}


@pytest.mark.parametrize(("layers", "pp", "pieces"), [(64, 8, 1), (64, 8, 4), (60, 4, 3)])
def test_modules_change_no_stage_where_all_have_as_many_layers(layers: int, pp: int, pieces: int) -> None:
    """Megatron-Core divides layers alone (get_num_layers_to_build) and adds modules to the last stage
    (get_mtp_num_layers_to_build): nothing is written but how many there are."""
    spec = calc.load_model("deepseek-v3")
    groups = (spec.layers[-1].model_copy(update={"count": layers}),)
    even = asked(), plan(pp=pp, interleave=pieces, micro_batches=pp, mtp=True)
    question = replace(even[0], spec=spec.model_copy(update={"layers": groups}))
    assert stage_lengths(layers, pp, pieces, 1) == (layers // pp,) * pp
    for name in ("megatron-core", "nemo"):
        text = tool(name).write(Launch(question, even[1]))
        assert re.search(r"mtp.num.layers[ =]1", text)
        assert not re.search(r"layout[ =](?!None)|-split|split=True|stage=[0-9]|pipeline-num-layers", text)
        read = tool(name).read(text, "plan")
        assert read.division.further == 1
        assert "stages" not in words_of(question, read)


PUBLISHED = {
    ("Et*4|(t*4|)*14tmL", 2): (61, 1),
    ("Et*8|(t*8|)*6t*5mL", 4): (61, 1),
    ("Et*4|(t*4|)*14tmL", 16): (61, 1),
    ("Et|(tt|)*30mL", 8): (61, 1),
    ("Et*4|(t*4|)*14tL", 4): (61, 0),
    ("Et*11|t*11|t*11|t*10mL", 4): (43, 1),
}
"""(layout, stages) of Megatron-Bridge at 067f987d, of DeepSeek-V3, Kimi K2, DeepSeek-V4-Flash -> (layers, modules)."""


@pytest.mark.parametrize(("text", "pp"), PUBLISHED)
def test_layouts_that_were_published_are_those_of_plans(text: str, pp: int) -> None:
    layers, further = PUBLISHED[text, pp]
    read = read_layout(text, pp, "--layout")
    assert read.stages == stage_lengths(layers, pp, read.pieces, further)
    assert read.further == further


@pytest.mark.parametrize(
    "text",
    [
        *("", "tt|L", "E(tt|", "Ett", "E(t|)*x L", "EtL;ls", "E t L", "EtL|", "|EtL", "Etm|L", "EmtL", "EEtL"),
        *("Et*2*2L", "Et*99999|t*99999|L", "E(" + "t" * 10_000 + ")*99999L", "Et*999999L"),
    ],
)
def test_what_is_no_layout(text: str) -> None:
    with pytest.raises(Refused, match="layout"):
        read_layout(text, 1, "layout")


def asked(**more: object) -> Question:
    return question(calc.load_model("deepseek-v3"), gpus=64, sequences=64, words={"stack": "megatron-core", **more})


def plan(**more: object) -> Run:
    usual = Run(phase="training", mode="training", recipe="bf16-master", ep=8, dp=8, pp=8, zero=1, micro_batches=8)
    return usual.changed(seq=64, **more)


def written(question: Question, run: Run) -> str:
    return tool("megatron-core").write(Launch(question, run))


def test_megatron_core_launches_stages_that_are_not_alike() -> None:
    """With embedding and head as a layer each 61 layers are 9 pieces a stage of 7; 3 a stage of 8 are no such number,
    nor is any where a stage has one piece, whose ends are not lighter; of every second layer they are not told."""
    for pp, pieces, every, launched in ((7, 3, 1, True), (8, 3, 1, True), (8, 3, 2, False), (8, 16, 1, False)):
        sizes = ("dp", "tp", "pp", "cp", "ep", "zero", "batch", "interleave", "micro_batches")
        run = plan(pp=pp, interleave=pieces, micro_batches=8 if pp == 8 else 7, checkpoint_every=every)
        columns = {name: np.array([float(getattr(run, name))]) for name in sizes}
        rows, ruled = possible(asked(), run.placed(columns), columns)
        assert (len(rows) == 1) == launched, (pp, pieces, every, ruled)
    assert "--account-for" in written(asked(), plan(pp=7, interleave=3))
    text = written(asked(), plan(interleave=3))
    assert "--account-for" not in text
    assert "--num-virtual-stages" not in text


@pytest.mark.parametrize("mtp", [False, True])
@pytest.mark.parametrize(
    ("pp", "pieces", "stages"),
    [(8, 3, None), (8, 1, None), (7, 1, None), (2, 8, None), (8, 4, None), (7, 3, None), (8, 3, (9, *(8,) * 6, 4))],
)
def test_a_launch_file_has_the_stages_that_were_timed(
    pp: int, pieces: int, stages: tuple[int, ...] | None, mtp: bool
) -> None:
    """Those of 7 stages with one piece each would be others with embedding and head as a layer each. The flags for
    these know of no modules, so that stages of 7 with three pieces each are written out with them."""
    run = plan(pp=pp, interleave=pieces, stages=stages, mtp=mtp)
    text = written(asked(), run)
    words = words_of(asked(), tool("megatron-core").read(text, "plan"))
    assert (words["interleave"], words["pp"], words.get("stages")) == (pieces, pp, stages)
    held = [sum(stage.layers.values()) for stage in stages_of(asked().spec, run)]
    told = re.search(r"--pipeline-model-parallel-layout '?([^' ]+)", text)
    assert (told is None) == (not mtp and (pp, pieces) == (7, 3))
    if told is not None:
        assert list(read_layout(told[1], pp, "").stages) == held


def test_a_file_whose_stages_are_its_own_is_timed_with_them() -> None:
    """With its modules for further tokens, and the `predict` line says both."""
    own = plan(interleave=3, stages=(9, *(8,) * 6, 4), mtp=True)
    read = tool("megatron-core").read(written(asked(), own), "plan")
    described = question_of(asked(), read)
    found = plan_of(described, words_of(described, read))
    assert (found.run.stages, found.run.mtp) == (own.stages, True)
    command = record_of(found, found)["command"]
    assert "--mtp --" in command
    assert "--stages 9,8,8,8,8,8,8,4" in command
    usual = plan_of(described, {**words_of(described, read), "stages": None})
    assert usual.seconds < found.seconds


def test_embedding_and_head_as_a_layer_each_are_read_as_such() -> None:
    """126 layers on 16 stages are 7, 8, … 8, 7 with them, where a plan without has 8, … 8, 6."""
    spec = calc.load_model("llama-3.1-405b")
    flags = "--pipeline-model-parallel-size 16 --account-for-embedding-in-pipeline-split"
    flags += " --account-for-loss-in-pipeline-split"
    read = tool("megatron-core").read(flags, "plan")
    assert words_of(question(spec, gpus=16), read)["stages"] == (7, *(8,) * 14, 7)
    odd = tool("megatron-core").read(flags.replace("16", "12"), "plan")
    with pytest.raises(Refused, match="layers of all stages"):
        words_of(question(spec, gpus=12), odd)


def test_files_that_do_not_fit_the_model() -> None:
    text = written(asked(), plan(interleave=3, mtp=True))
    read = tool("megatron-core").read
    with pytest.raises(Refused, match="as many m as --mtp-num-layers says: 0"):
        read(re.sub("--mtp-num-layers 1", "", text), "plan")
    with pytest.raises(Refused, match="layers of all stages"):
        words_of(asked(), read(text.replace("|ttt|", "|tt|", 1), "plan"))
    two = text.replace("mL", "mmL").replace("--mtp-num-layers 1", "--mtp-num-layers 2")
    with pytest.raises(Refused, match="modules for further tokens"):
        question_of(asked(), read(two, "plan"))
    block = " --recompute-granularity full --recompute-method block --recompute-num-layers 1"
    with pytest.raises(Refused, match="pieces of stages are not alike"):
        words_of(asked(), read(text.rstrip() + block, "plan"))
