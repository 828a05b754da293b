"""`plan` on the command line: what scripts may rely on."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from calc.time.economics import failures
from tests.cli.test_commands import Run, run
from tests.reference import folder

__all__ = ["run"]
ASKED = ("--cluster", "dgx-h100", "--gpus", "8", "--seq", "1024", "--global-batch", "64seq", "--stack", "fsdp2")
SMALL = ("gpt2", *ASKED, "--at-most", "batch=4", "--at-most", "tp=2", "--at-most", "cp=2")


def records(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def test_json_is_one_object_a_line_the_best_first(run: Run) -> None:
    status, out, _ = run("plan", *SMALL, "--top", "4", "--price", "2/h", "--tokens", "10e9", "--json")
    found = records(out)
    assert status == 0
    assert [each["rank"] for each in found] == [1, 2, 3, 4]
    keys = {"rank", "plan", "seconds", "tokens_per_second", "mfu", "memory_peak", "fits", "gpus", "interval", "command"}
    sizes = {"dp", "tp", "pp", "cp", "ep", "zero", "micro_batch", "micro_batches", "schedule", "interleave"}
    for each in found:
        assert keys | {"days", "gpu_hours", "money"} <= set(each)
        plan = each["plan"]
        assert sizes | {"checkpointing", "sequence_parallel", "recipe"} <= set(plan)
        assert plan["dp"] * plan["tp"] * plan["pp"] * plan["cp"] == each["gpus"] == 8
        assert plan["dp"] * plan["micro_batch"] * plan["micro_batches"] == 64
        assert each["tokens_per_second"] == pytest.approx(64 * 1024 / each["seconds"])
        assert set(each["interval"]) == {"level", "low", "high"}
        assert each["money"] == pytest.approx(2 * each["gpu_hours"])
        assert each["fits"] is True
        assert (each["mfu_convention"], each["mfu_pairs"]) == ("palm", "all")
    assert [each["seconds"] for each in found] == sorted(each["seconds"] for each in found)


def test_the_command_reads_the_model_as_it_was_read(run: Run) -> None:
    """Flan-T5 has a head of its own in its checkpoints, which transformers' class shares with the table of tokens."""
    model = str(folder() / "truth" / "configs" / "flan-t5-base.json")
    seconds = {}
    for tying in ("transformers", "checkpoint"):
        _, out, _ = run("plan", model, "--tying", tying, *ASKED, "--top", "1", "--json")
        (best,) = records(out)
        _, alone, _ = run(*shlex.split(best["command"])[3:])
        seconds[tying] = best["seconds"]
        assert json.loads(alone)["seconds"] == pytest.approx(best["seconds"])
    assert seconds["checkpoint"] > seconds["transformers"]


def test_the_list_for_people_has_no_near_copies(run: Run) -> None:
    """Plans that differ in micro-batch or pieces of stages alone stand for one another there, and all in JSON."""
    asked = (
        "plan",
        "llama-3-8b",
        *ASKED[:-2],
        "--stack",
        "megatron-core",
        "--fix",
        "tp=1",
        "--fix",
        "cp=1",
        "--top",
        "12",
    )
    ranked = [each["plan"] for each in records(run(*asked, "--json")[1])]
    free = ("micro_batch", "micro_batches", "interleave", "stages")
    kinds = {tuple(value for name, value in plan.items() if name not in free) for plan in ranked}
    assert len(ranked) == 12 > len(kinds)
    listed = re.findall(r"^\d+=? +(\S.*?)  ", run(*asked)[1], flags=re.MULTILINE)
    assert len(listed) == 12
    assert len({re.sub(r" \d+×\d+( v\d+)?", "", name) for name in listed}) == 12


def test_the_command_of_a_plan_and_memory_give_the_same_numbers(run: Run) -> None:
    _, out, _ = run("plan", "llama-3-8b", *ASKED, "--top", "30", "--json")
    for each in (lines := records(out))[:: max(len(lines) // 4, 1)]:
        words = shlex.split(each["command"])
        assert words[:4] == ["python", "-m", "calc", "predict"]
        status, alone, _ = run(*words[3:])
        told = json.loads(alone)
        assert status == 0
        assert told["seconds"] == pytest.approx(each["seconds"], rel=1e-9)
        assert told["interval"] == pytest.approx(each["interval"])
        plan = each["plan"]
        sizes = [
            part for name in ("dp", "tp", "pp", "cp", "zero", "interleave") for part in (f"--{name}", str(plan[name]))
        ]
        batch = ["--batch", str(plan["micro_batch"]), "--micro-batches", str(plan["micro_batches"]), "--seq", "1024"]
        formats = [
            "--recipe",
            plan["recipe"],
            "--checkpointing",
            plan["checkpointing"],
            "--stack",
            "fsdp2",
        ]
        if plan["tp"] > 1 and not plan["sequence_parallel"]:
            sizes.append("--no-sequence-parallel")
        _, weighed, _ = run("memory", "llama-3-8b", *sizes, *batch, *formats, "--gpu", "h100-sxm", "--json")
        held = json.loads(weighed)
        assert held["peak"] == each["memory_peak"]
        assert held["fits"] is True


def test_a_table_fits_a_terminal_and_says_what_was_ruled_out(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    status, out, err = run("plan", *SMALL, "--top", "5")
    assert status == 0
    assert max(map(len, out.splitlines())) <= 80
    for part in ("ruled out", "less memory for more time", "over the next", "reserved"):
        assert part in out
    # A slow machine says how far it is.
    assert all("pieces of the search" in line for line in err.splitlines())


def test_a_batch_between_sequences_is_rounded_and_said(run: Run) -> None:
    words = [word if word != "64seq" else "70000" for word in SMALL]
    status, out, err = run("plan", *words, "--top", "1", "--json")
    assert status == 0
    assert "68 sequences, 69,632 tokens" in err
    assert records(out)[0]["tokens"] == 68 * 1024


def test_nothing_fits_says_the_least_that_would(run: Run) -> None:
    arguments = ("llama-3-8b", "--cluster", "dgx-h100", "--gpus", "1", "--seq", "8192", "--global-batch", "64seq")
    status, out, err = run("plan", *arguments, "--stack", "fsdp2", "--json")
    assert status == 1
    assert out == ""
    line = err.strip().splitlines()[-1]
    assert line.startswith("error: nothing fits: the least that a plan reserves is ")
    assert "GPUs would be enough" in line
    enough = line.rpartition("; ")[2].split()[0]
    more = ["--gpus", enough] if (place := arguments.index("--gpus")) else []
    again, _, _ = run("plan", *arguments[:place], *more, *arguments[place + 2 :], "--stack", "fsdp2", "--top", "1")
    assert again == 0


def test_a_batch_that_no_plan_divides_says_which_one_would(run: Run) -> None:
    words = [word if word != "64seq" else "7seq" for word in SMALL]
    status, _, err = run("plan", *words, "--fix", "dp=8")
    assert status == 1
    assert "8 (8,192 tokens) would be" in err


def test_a_size_that_no_plan_has_is_named_with_those_that_there_are(run: Run) -> None:
    status, out, err = run("plan", "gpt2", *ASKED, "--at-most", "batch=4", "--at-most", "cp=2", "--fix", "tp=3")
    assert (status, out) == (1, "")
    assert err.splitlines()[-1] == "error: no plan has tp 3: with the rest as asked it can be 1, 2, 4"
    two = (
        "gpt2",
        "--cluster",
        "dgx-h100",
        "--gpus",
        "16",
        "--seq",
        "1024",
        "--global-batch",
        "64seq",
        "--at-most",
        "cp=2",
    )
    heads, beyond = "does not divide: tp in heads", "tensor-parallel ranks beyond a machine and its fast links"
    for tp, whys in ((3, ()), (16, (heads, beyond))):
        for stack in ((), ("--stack", "megatron-core")):
            status, out, err = run("plan", *two, *stack, "--fix", f"tp={tp}")
            assert status == 1
            assert "the host" not in out
            said = err.splitlines()[-1]
            assert said.startswith(f"error: no plan has tp {tp}")
            assert all(why in said for why in whys)
            assert said.endswith(": with the rest as asked it can be 1, 2, 4")
    status, _, err = run("plan", *SMALL, "--cluster", "dgx-h10")
    assert status == 2
    assert "dgx-h100" in err
    assert "gb200-nvl72, or a TOML file" in err or "tpu-v6e, or a TOML file" in err


def test_why_no_plan_is_possible_is_said_of_each_reason(run: Run) -> None:
    ruled = ("--fix", "offload=activations", "--fix", "pp=2")
    _, _, err = run("plan", "gpt2", *ASKED[:-2], *ruled)
    assert err.splitlines()[-1] == (
        "error: no plan has pp 2 (pipelines, beside activations on the host): with the rest as asked it can be 1"
    )
    _, _, err = run("plan", "gpt2", *ASKED[:-2], *ruled, "--seq", "1023", "--fix", "cp=2")
    assert "no plan can be: " in err
    assert "does not divide: 2 × cp in the sequence (" in err
    experts = ("qwen3-30b-a3b", *ASKED[:-2], "--fix", "expert_tp=1", "--fix", "sequence_parallel=false")
    assert "no plan has expert_tp 1 with the rest as asked" in run("plan", *experts)[2]


def test_several_clusters_and_numbers_of_gpus(run: Run) -> None:
    words = [word.replace("dgx-h100", "dgx-h100,dgx-a100") if word == "dgx-h100" else word for word in SMALL]
    words[words.index("8")] = "2..8"
    status, out, _ = run("plan", *words, "--top", "1")
    assert status == 0
    table = out.partition("the best on each number of GPUs")[2].partition("ruled out")[0]
    assert sorted(line.split()[0] for line in table.splitlines() if ":" in line) == sorted(
        f"{gpus}×{name}:" for name in ("dgx-h100", "dgx-a100") for gpus in (2, 4, 8)
    )


def test_how_few_gpus_and_how_many_tokens(run: Run) -> None:
    """The two ways of turning the question round agree."""
    words = [word for word in SMALL if word not in ("--gpus", "8")]
    status, out, err = run("plan", *words, "--tokens", "300e9", "--days", "14", "--top", "1", "--json")
    (few,) = records(out)
    assert status == 0
    assert "days by GPUs tried" in err
    assert few["days"] <= 14
    _, out, _ = run("plan", *words, "--gpus", str(few["gpus"]), "--days", str(few["days"]), "--top", "1", "--json")
    assert records(out)[0]["tokens_total"] == pytest.approx(300e9, rel=1e-3)


def test_models_without_tokens_are_planned_in_vectors(run: Run, tmp_path: Path) -> None:
    """256 of each picture, as `predict` says, whatever the usual length of a text is; nothing is said of tokens."""
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"_class_name": "DiTTransformer2DModel", "num_layers": 2}))
    asked = (str(config), "--cluster", "dgx-h100", "--gpus", "8", "--global-batch", "64seq", "--fix", "batch=8")
    status, out, _ = run("plan", *asked)
    assert status == 0
    assert "64 × 256 vectors a step" in out
    assert "vectors/s" in out
    assert "tokens/s" not in out
    (each,) = records(run("plan", *asked, "--top", "1", "--json")[1])
    assert each["tokens"] == 64 * 256
    assert "--seq" not in each["command"]
    _, alone, _ = run(*shlex.split(each["command"])[3:])
    assert json.loads(alone)["seconds"] == pytest.approx(each["seconds"], rel=1e-9)
    for words, field in (
        (("--tokens", "1B"), "--tokens"),
        (("--days", "1"), "--days"),
        (("--seq", "512"), "--seq"),
        (("--global-batch", "64Ki"), "--global-batch"),
    ):
        status, out, err = run("plan", *asked, *words)
        assert (status, out) == (2, "")
        assert err.splitlines()[-1].startswith(f"error: {field}: expected")


def test_a_launch_file_and_what_would_be_better(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "launch.sh"
    asked = [word for word in SMALL if word not in ("--stack", "fsdp2")]
    status, out, err = run("plan", *asked, "--as", "megatron-core", "--fix", "tp=2")
    assert status == 0
    assert "--tensor-model-parallel-size 2" in out
    assert "megatron-core core_" in err
    file.write_text(out)
    status, out, _ = run("plan", *asked, "--as", "megatron-core", "--from", str(file), "--json")
    (own,) = records(out)
    assert status == 0
    assert own["plan"]["tp"] == 2
    assert own["seconds"] > own["better"]["seconds"]
    assert own["fits"] is True


def test_a_launch_file_says_what_the_command_line_leaves_open(run: Run, tmp_path: Path) -> None:
    """GPUs, length and batch are the file's; what is said beside it is taken instead, with a note."""
    file = tmp_path / "launch.sh"
    flags = "--micro-batch-size 4 --tensor-model-parallel-size 2 --seq-length 512 --global-batch-size 64"
    file.write_text(f"torchrun --nnodes 1 --nproc-per-node 8 pretrain_gpt.py {flags} --bf16")
    alone = ("plan", "gpt2", "--cluster", "dgx-h100", "--as", "megatron-core", "--from", str(file), "--json")
    few = ("--at-most", "batch=4", "--at-most", "pp=1", "--at-most", "cp=1")
    status, out, err = run(*alone, *few)
    (own,) = records(out)
    assert (status, "file" in err) == (0, False)
    assert (own["gpus"], own["plan"]["tp"], own["plan"]["dp"], own["plan"]["micro_batches"]) == (8, 2, 4, 4)
    assert own["tokens_per_second"] == pytest.approx(64 * 512 / own["seconds"])
    other = ("--gpus", "4", "--seq", "256", "--global-batch", "32seq", "--fix", "tp=1")
    status, out, err = run(*alone, *few, *other)
    (own,) = records(out)
    assert (own["gpus"], own["plan"]["tp"], own["plan"]["dp"], own["plan"]["micro_batches"]) == (4, 1, 4, 2)
    assert own["tokens_per_second"] == pytest.approx(32 * 256 / own["seconds"])
    assert [line for line in err.splitlines() if "of the file" in line] == [
        "note: --seq asks for 256, not the 512 of the file",
        "note: --gpus asks for 4, not the 8 of the file",
        "note: --global-batch asks for 32 sequences, not the 64 of the file",
        "note: --fix tp asks for 1, not the 2 of the file",
    ]


def test_an_optimizer_that_is_said_is_taken_before_that_of_the_file(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "launch.sh"
    flags = "--micro-batch-size 4 --tensor-model-parallel-size 2 --seq-length 512 --global-batch-size 64 --bf16"
    narrow = "--use-distributed-optimizer --use-precision-aware-optimizer --exp-avg-dtype bf16 --exp-avg-sq-dtype bf16"
    file.write_text(f"torchrun --nnodes 1 --nproc-per-node 8 pretrain_gpt.py {flags} {narrow}")
    asked = ("plan", "gpt2", "--cluster", "dgx-h100", "--as", "megatron-core", "--from", str(file), "--json")
    of_file, same, wider = (run(*asked, *more) for more in ((), *(("--optimizer", f"adamw{n}") for n in ("-bf16", ""))))
    peaks = [records(out)[0]["memory_peak"] for _, out, _ in (of_file, same, wider)]
    assert peaks[0] == peaks[1] < peaks[2]
    notes = ["of the file" in err for _, _, err in (of_file, same, wider)]
    assert notes == [False, False, True]


@pytest.mark.parametrize(
    ("line", "lacks"), [("", "--gpus"), ("torchrun --nnodes 1 --nproc-per-node 8 ", "--global-batch")]
)
def test_what_neither_a_launch_file_nor_the_command_line_says_is_asked_for(
    run: Run, tmp_path: Path, line: str, lacks: str
) -> None:
    file = tmp_path / "launch.sh"
    file.write_text(f"{line}pretrain_gpt.py --micro-batch-size 4")
    status, out, err = run("plan", "gpt2", "--cluster", "dgx-h100", "--as", "megatron-core", "--from", str(file))
    assert (status, out) == (2, "")
    assert err.startswith(f"error: {lacks}: expected")
    assert "as the file does not say" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--fix", "tp=8", "--at-most", "tp=4"), "--fix tp: expected at most 4, as --at-most says, found 8"),
        (("--fix", "zero=3", "--fix", "zero=1"), "--fix: expected zero once, found 2 times"),
        (("--at-most", "pp=2", "--at-most", "pp=1"), "--at-most: expected pp once, found 2 times"),
    ],
)
def test_what_excludes_another_word_is_refused(run: Run, words: tuple[str, ...], said: str) -> None:
    assert run("plan", "gpt2", *ASKED, *words) == (2, "", f"error: {said}\n")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"--gpus": "0"}, "--gpus: expected a whole number from 1"),
        ({"--gpus": "512..8"}, "--gpus: expected the smaller number first"),
        ({"--global-batch": "4M"}, "--global-batch: expected a whole number"),
        ({"--global-batch": "4MB"}, "tokens, as 4Mi, or sequences, as 512seq, found 4MB"),
        ({"--model-grid": "d_model=700", "--params": "1B"}, "divisible and within the budget, found 1 not divisible"),
        ({"--global-batch": "100"}, "--global-batch: expected at least one sequence of 1,024 tokens"),
        ({"--fix": "tp"}, "--fix: expected NAME=VALUE"),
        ({"--fix": "heads=2"}, "--fix: expected one of"),
        ({"--fix": "checkpointing=some"}, "--fix checkpointing: expected one of"),
        ({"--at-most": "recipe=2"}, "--at-most: expected one of"),
        ({"--headroom": "100%"}, "--headroom: expected"),
        ({"--price": "free"}, "expected money for a GPU-hour"),
        ({"--price": "dgx-b200=2"}, "--price: expected a price of one of dgx-h100"),
        ({"--objective": "cost"}, "--price: expected the price of a GPU-hour"),
        ({"--dtype": "bf17"}, "--dtype: expected recipes of"),
        ({"--cluster": "nowhere"}, "cluster: expected one of a3-mega"),
        ({"--stack": "nothing"}, "--stack: expected one of"),
        ({"--as": "slurm"}, "--as: expected one of"),
        ({"--as": "torchtitan"}, "--stack: expected torchtitan"),
        ({"--fp8-recipe": "mxfp8"}, "fp8_recipe: expected the recipe fp8 or fp8-fsdp beside it"),
        ({"--dtype": "fp32", "--gradient-dtype": "bf16"}, "gradient_dtype: expected fp32 beside the recipe fp32"),
        ({"--fix": "offload_layers=3"}, "--fix offload_layers: expected --fix offload=activations beside it"),
        ({"--from": "x"}, "--as: expected the tool that --from is a file of"),
        ({"--params": "1B"}, "--params: expected --model-grid beside it"),
        ({"--flops": "1e20"}, "--flops: expected --model-grid beside it"),
        ({"--law": "kaplan"}, "--law: expected --model-grid beside it"),
        ({"--model-grid": "n_layers=12", "--params": "1B", "--days": "1"}, "--days: expected none beside --model-grid"),
        ({"--model-grid": "n_layers=12", "--as": "fsdp2"}, "--as: expected none beside --model-grid"),
        ({"--from": "x", "--as": "fsdp2", "--tokens": "1B"}, "--tokens: expected none beside --from"),
        ({"--days": "1", "--as": "fsdp2"}, "--as: expected none beside --days with --gpus"),
        ({"--days": "1", "--tokens": "1B"}, "--tokens: expected none beside --days with --gpus"),
        (
            {"--cluster": "dgx-h100,dgx-b200", "--model-grid": "n_layers=12", "--params": "1B"},
            "--cluster: expected one beside --model-grid, found dgx-h100,dgx-b200",
        ),
    ],
)
def test_refusals_are_one_line(run: Run, changed: dict[str, str], said: str) -> None:
    words = ["gpt2", *ASKED]
    for name, value in changed.items():
        words = [*words[: words.index(name)], *words[words.index(name) + 2 :]] if name in words else words
        words += [name, value]
    status, out, err = run("plan", *words)
    assert status == 2, err
    assert out == ""
    assert said in err
    assert err.startswith("error: ")
    assert len(err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--fix offload_layers=12", "offload_layers: expected 1 to 11, all layers but the last, found 12"),
        ("--graphs attention", "graphs: expected none with --offload activations"),
        ("--fix recompute=mlp", "recompute: expected none under megatron-core with --offload activations"),
        ("--fix checkpointing=full", "checkpointing: expected none under megatron-core with --offload activations"),
        ("--stack torchtitan", "stack: expected with --offload activations one of deepspeed, megatron-core"),
        ("--stack deepspeed --fix checkpointing=none", "checkpointing: expected full under deepspeed"),
        ("--fix offload=none --graphs attention --fix checkpointing=full", "graphs: expected none or step beside full"),
        ("--fix offload=optimizer --optimizer lion", "optimizer: expected adamw with --offload optimizer"),
        ("--fix offload=optimizer --dtype bf16,fp32", ""),
        ("--fix offload=optimizer --dtype bf16", "what others keep there is not described, found adamw-bf16"),
    ],
)
def test_words_that_go_with_nothing_are_refused_before_a_search(run: Run, words: str, said: str) -> None:
    """Recipes where none goes with what is fixed."""
    plain = words.split() if "--stack" in words else ["--stack", "megatron-core", *words.split()]
    first = [] if "offload=" in words else ["--fix", "offload=activations"]
    status, _, err = run("plan", "gpt2", *ASKED[: ASKED.index("--stack")], *first, *plain)
    assert (status == 2) is bool(said), err
    assert said in err
    assert not said or len(err.strip().splitlines()) == 1


def test_what_a_launch_file_cannot_hold_is_said(run: Run) -> None:
    """Of a file that recomputes whole layers the best that it can hold is written, and the other plan named; one whose
    file holds all that its stack runs says nothing, nor does one whose best plan is the best."""
    long = ("llama-3-8b", "--cluster", "dgx-h100", "--gpus", "8", "--seq", "16384", "--global-batch", "16seq")
    few = ("--at-most", "pp=1", "--at-most", "tp=1", "--at-most", "cp=1")
    status, out, err = run("plan", *long, *few, "--as", "fsdp2")
    assert status == 0
    assert "RESHARD_AFTER_FORWARD" in out
    (line,) = (each for each in err.splitlines() if "has no words for" in each)
    lacks = "checkpointing selective-op"
    assert re.fullmatch(rf"note: fsdp2 has no words for {lacks} of the best plan .* [\d.]+% better by it", line)
    (own,) = records(run("plan", *long, *few, "--as", "fsdp2", "--json")[1])
    better = own["beyond"]
    assert better["lacks"] == [lacks]
    assert own["plan"]["checkpointing"] == "full"
    assert better["plan"]["checkpointing"] == "selective-op"
    (best,) = records(run("plan", *long, *few, "--stack", "fsdp2", "--top", "1", "--json")[1])
    assert best["seconds"] == better["seconds"] < own["seconds"]
    for tool in ("torchtitan", "fsdp2"):
        short = [word for word in SMALL if word not in ("--stack", "fsdp2")]
        (own,) = records(run("plan", *short, "--as", tool, "--json")[1])
        assert own["beyond"] is None


def test_a_plan_that_no_launch_file_holds_is_named_where_nothing_fits(run: Run) -> None:
    status, out, err = run("plan", *SMALL, "--as", "fsdp2", "--fix", "tp=2")
    assert status == 1
    assert "unsupported by the stack" in out
    assert "note: fsdp2 has no words for tp 2" in err


def test_misspelt_flags_of_a_launch_file_are_told(run: Run, tmp_path: Path) -> None:
    """A letter less, or other dashes; a flag that is like none is named alone."""
    file = tmp_path / "launch.sh"
    flags = "--micro-batch-size 4 --tensor-model-paralel-size 2 --context_parallel_size 2 --train-iters 10"
    file.write_text(f"torchrun --nnodes 1 --nproc-per-node 8 pretrain_gpt.py {flags}")
    asked = [word for word in SMALL if word not in ("--stack", "fsdp2")]
    status, _, err = run("plan", *asked, "--as", "megatron-core", "--from", str(file))
    assert status == 0
    (line,) = (each for each in err.splitlines() if each.startswith("note: not read"))
    assert "--tensor-model-paralel-size (did you mean --tensor-model-parallel-size?)" in line
    assert "--context_parallel_size (did you mean --context-parallel-size?)" in line
    assert line.endswith(", --train-iters")


def test_both_spellings_of_torchruns_options_are_read(run: Run, tmp_path: Path) -> None:
    """And GPUs of the command line that a file contradicts are named."""
    flags = "--tensor-model-parallel-size 1 --use-distributed-optimizer --bf16 --micro-batch-size 1"
    told = {}
    for spelled in ("--nproc-per-node", "--nproc_per_node"):
        file = tmp_path / "train.sh"
        file.write_text(f"torchrun --nnodes 1 {spelled} 4 pretrain_gpt.py {flags}")
        asked = [word for word in SMALL if word not in ("--stack", "fsdp2")]
        status, out, err = run("plan", *asked, "--as", "megatron-core", "--from", str(file))
        assert status == 0
        assert "not read" not in err
        assert "note: --gpus asks for 8, not the 4 of the file" in err
        told[spelled] = out
    assert len(set(told.values())) == 1


@pytest.mark.parametrize(("objective", "column"), [("cost", "step cost"), ("energy", "step kWh")])
def test_what_is_minimised_has_a_column(run: Run, objective: str, column: str) -> None:
    """8 GPUs at 2 an hour; at 700 W each, with the data centre's PUE: a step's part of what the whole run takes."""
    asked = (*SMALL, "--top", "2", "--price", "2/h", "--objective", objective)
    (each, _) = records(run("plan", *asked, "--tokens", "2T", "--json")[1])
    worth = each["seconds"] / 3600 * 8 * (2 if objective == "cost" else 0.7 * failures()["power"]["pue"])
    whole = each["money" if objective == "cost" else "energy_kwh"]
    assert whole / each["gpu_hours"] == pytest.approx(worth / (each["seconds"] / 3600 * 8))
    _, out, _ = run("plan", *asked)
    (header,) = (line for line in out.splitlines() if line.rstrip().endswith(column))
    first = out.splitlines()[out.splitlines().index(header) + 1]
    assert float(first.split()[-1]) == pytest.approx(worth, rel=1e-3)
    assert column not in run("plan", *SMALL, "--top", "2")[1]


@pytest.mark.parametrize(
    ("tool", "written"),
    [
        ("megatron-core", "torchrun --nproc-per-node 8 pretrain_gpt.py --bf16 {flag} 1 --{layers} {n} --{width} {d}"),
        ("nemo", "{flag}=1\nmodel.config.{layers}={n}\nmodel.config.{width}={d}"),
    ],
)
@pytest.mark.parametrize(("n", "d", "told"), [(24, 768, "12 layers, found 24"), (12, 1024, "768 wide, found 1,024")])
def test_the_file_of_another_model_is_refused(
    run: Run, tmp_path: Path, tool: str, written: str, n: int, d: int, told: str
) -> None:
    names = {"layers": "num-layers", "width": "hidden-size", "flag": "--tensor-model-parallel-size"}
    if tool == "nemo":
        names = {"layers": "num_layers", "width": "hidden_size", "flag": "trainer.strategy.tensor_model_parallel_size"}
    file = tmp_path / "launch"
    file.write_text(written.format(n=n, d=d, **names))
    asked = ("plan", "gpt2", "--cluster", "dgx-h100", "--as", tool, "--from", str(file))
    assert run(*asked)[::2] == (2, f"error: --from: expected a file that trains gpt2, {told}\n")
