"""The gate itself: two real trees, one of them made slower, broken, or counting differently."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from calc import Load, Shorthand
from calc.errors import Refused
from calc.quantities.saved_tensors import saved_tensors
from calc.trace.settings import Settings
from harness.cases.matmul import MatmulCase
from harness.gating.agent import SAVED_SEQ, saved_bytes
from harness.gating.commit import files_of, resolve
from harness.gating.decision import decide
from harness.gating.gate import Row, fails, timed, two_trees
from harness.gating.session import Effort
from tests.reference import ROOT

SLOWER = """
import dataclasses
_ready, _counts = MatmulCase.ready, MatmulCase.counts


def _twice(self, device):
    made = _ready(self, device)
    run = made.run
    return dataclasses.replace(made, run=lambda: (run(), run()))


MatmulCase.ready = _twice
MatmulCase.counts = lambda self: {**_counts(self), "flops": 2 * _counts(self)["flops"]}
"""
BROKEN = """
def _never(self, device):
    raise RuntimeError("it no longer works")


PassCase.ready = _never
"""
ONE = "matmul/m=64,n=2048,k=512"


def git(folder: Path, *words: str) -> str:
    own = ["-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"]
    return subprocess.run(["git", "-C", str(folder), *own, *words], check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with what is measured in it, and one commit."""
    folder = tmp_path_factory.mktemp("repository")
    for package in ("calc", "harness", "reference_models"):
        # What is compiled comes too, lest every process compiles it, but for what somebody is about to write.
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("*.pyc.*"))
    git(folder, "init", "--quiet")
    (folder / ".git" / "info" / "exclude").write_text("__pycache__\n")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "as it is")
    hook = folder / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {folder}/hooked\n")
    hook.chmod(0o755)
    return folder


def variables(repository: Path, scratch: Path) -> dict[str, str]:
    scratch.mkdir(exist_ok=True)
    return os.environ | {"PYTHONPATH": str(repository), "TMPDIR": str(scratch), "PYTHONDONTWRITEBYTECODE": "1"}


def gate(repository: Path, scratch: Path, *words: str) -> tuple[int, list[dict[str, Any]], str]:
    """The exit status, the records, and what was said on stderr; nothing may be left behind."""
    command = [sys.executable, "-m", "harness", "gate", "--device", "cpu", "--json", *words]
    environment = variables(repository, scratch)
    done = subprocess.run(command, cwd=repository, env=environment, capture_output=True, text=True, check=False)
    clean(repository, scratch)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def clean(repository: Path, scratch: Path) -> None:
    assert not (repository / ".git" / "worktrees").exists()
    assert not (repository / "hooked").exists()
    assert not list(scratch.glob("gate-*"))


@pytest.mark.slow
def test_a_slower_tree_with_other_counts_shuts_the_gate(repository: Path, tmp_path: Path) -> None:
    file = repository / "harness" / "cases" / "matmul.py"
    before = file.read_text()
    file.write_text(before + SLOWER)
    try:
        code, records, _ = gate(repository, tmp_path / "tmp", "--against", "HEAD", "--case", ONE, "--rounds", "5")
    finally:
        file.write_text(before)
    assert code == 1
    (record,) = records
    assert record["verdict"] == "SLOWER"
    assert 1.5 < record["ratio"] < 3
    assert record["changed"] == {"flops": {"a": 2.0 * 64 * 2048 * 512, "b": 4.0 * 64 * 2048 * 512}}


@pytest.mark.slow
def test_equal_trees_count_the_same_whatever_is_asked(repository: Path, tmp_path: Path) -> None:
    code, records, _ = gate(repository, tmp_path / "tmp", "--against", "HEAD", "--counts-only")
    assert code == 0
    assert {record["verdict"] for record in records} == {"COUNTED"}
    assert not any(record["changed"] for record in records)
    assert {record["kind"] for record in records} >= {"matmul", "pass", "attention", "training", "decode"}


@pytest.mark.slow
def test_what_no_longer_runs_shuts_the_gate(repository: Path, tmp_path: Path) -> None:
    file = repository / "harness" / "cases" / "passes.py"
    before = file.read_text()
    file.write_text(before + BROKEN)
    try:
        words = ("--against", "HEAD", "--case", "pass/function=copy")
        code, records, _ = gate(repository, tmp_path / "tmp", *words)
    finally:
        file.write_text(before)
    assert code == 1
    assert [record["verdict"] for record in records] == ["BROKEN"]
    assert "it no longer works" in records[0]["reason"]


@pytest.mark.parametrize("reference", ["nonsense", "--help"])
def test_what_names_no_commit_is_refused(repository: Path, tmp_path: Path, reference: str) -> None:
    code, _, errors = gate(repository, tmp_path / "tmp", f"--against={reference}", "--case", ONE)
    assert code == 2
    assert errors.startswith("error: --against: expected a commit")
    assert errors.count("\n") == 1


def test_the_files_of_a_commit_are_those_of_git_and_a_kill_leaves_git_alone(repository: Path, tmp_path: Path) -> None:
    with files_of(repository, "HEAD") as (tree, commit):
        assert git(repository, "rev-parse", "HEAD").startswith(commit)
        listed = git(repository, "ls-tree", "-r", "--name-only", "HEAD").splitlines()
        assert sorted(listed) == sorted(str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file())
    assert not tree.parent.exists()
    assert git(repository, "status", "--porcelain") == ""
    hang = "import os, sys; from pathlib import Path; from harness.gating.commit import files_of"
    hang += "\nwith files_of(Path(sys.argv[1]), 'HEAD'): os.kill(os.getpid(), 9)"
    killed = [sys.executable, "-c", hang, str(repository)]
    done = subprocess.run(killed, cwd=repository, env=variables(repository, tmp_path / "tmp"), check=False)
    assert done.returncode == -signal.SIGKILL
    assert not (repository / ".git" / "worktrees").exists()
    assert not (repository / "hooked").exists()


def test_a_shallow_clone_says_what_to_fetch(repository: Path, tmp_path: Path) -> None:
    source, shallow = tmp_path / "source", tmp_path / "shallow"
    subprocess.run(["git", "init", "--quiet", str(source)], check=True)
    for message in ("one", "two"):
        git(source, "commit", "--quiet", "--allow-empty", "--message", message)
    subprocess.run(["git", "clone", "--quiet", "--depth=1", f"file://{source}", str(shallow)], check=True)
    with pytest.raises(Refused, match=r"--against: expected .* this clone is shallow \(git fetch --unshallow"):
        resolve(shallow, "HEAD~1")
    with pytest.raises(Refused, match="--against: expected a commit, a branch or a tag, found HEAD~2"):
        resolve(source, "HEAD~2")


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_gate_leaves_nothing_behind(repository: Path, tmp_path: Path, sent: signal.Signals) -> None:
    scratch = tmp_path / "tmp"
    command = [sys.executable, "-m", "harness", "gate", "--against", "HEAD", "--device", "cpu", "--rounds", "1000"]
    child = subprocess.Popen(
        command, cwd=repository, env=variables(repository, scratch), stderr=subprocess.PIPE, text=True
    )
    try:
        while not list(scratch.glob("gate-*/tree/calc")) and child.poll() is None:
            time.sleep(0.05)
        child.send_signal(sent)
        _, errors = child.communicate()
    finally:
        child.kill()
    assert child.returncode == 130
    # Click ends the line that a terminal shows ^C on.
    assert errors.strip() == "error: interrupted"
    clean(repository, scratch)


@pytest.mark.slow
def test_a_planted_slowdown_is_in_the_times() -> None:
    """One process does 15 % more work a sample; that it is found every time is for a quiet machine's record."""
    case, effort = MatmulCase(64, 256, 256, dtype="fp32"), Effort(rounds=9, seconds=0.01, warmup=0.05)
    with two_trees(ROOT, ROOT, "cpu", planted=0.5) as sides:
        row = timed(case, sides, effort)
    assert row.change is not None
    assert 1.2 < row.change.ratio < 1.8
    assert row.change == decide(row.sessions)


def test_what_shuts_a_gate() -> None:
    case = MatmulCase(8, 8, 8)
    same, other = Row(case, "SAME"), Row(case, "SAME", counts=(("flops", 1.0, 2.0),))
    assert not fails([same, Row(case, "AMBIGUOUS"), Row(case, "NEW"), Row(case, "FASTER")], False)
    assert fails([same, Row(case, "SLOWER")], True)
    assert fails([same, Row(case, "BROKEN")], True)
    assert fails([same, other], False)
    assert not fails([same, other], True)


def test_bytes_that_a_twin_keeps_are_those_that_calc_counts() -> None:
    spec = Shorthand(d_model=64, n_layers=2, n_heads=4, vocab_size=101, max_seq_len=64).expand()
    counted = saved_tensors(spec, Load(batch=1, seq=SAVED_SEQ), Settings(execution="eager", dtype="fp32", device="cpu"))
    everything = sum(times * saved.tensor.bytes for times, saved in counted.everything())
    # The pass ends at the logits: nothing of the loss is kept.
    assert saved_bytes(spec) == everything - sum(saved.tensor.bytes for saved in counted.loss)
