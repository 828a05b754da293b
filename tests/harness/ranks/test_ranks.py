"""Ranks under torchrun over gloo: right, predicted first, written by one, and a cluster's description of one's own."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

pytest.importorskip("torch")

from calc.errors import Refused
from calc.spec.clusters import load_cluster
from calc.time import predict
from calc.time.cluster.measured import measured_models
from harness.__main__ import cli
from harness.cases import make
from harness.cases.collectives import CollectiveCase, ExchangeCase
from harness.cases.parallel import ParallelTrainingCase
from harness.environment import child_variables
from harness.ranks.start import Place, place_of
from harness.ranks.suites import OPS, RANK_SUITES
from harness.store import scan
from tests.harness.ranks.briefly import BATCH, SEQ
from tests.harness.ranks.started import BRIEFLY, files, killed, on_two_nodes, torchrun
from tests.reference import ROOT

TOLERANCE = 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("nodes", [1, 2])
def test_every_way_to_spread_a_step_gives_what_one_process_gives(nodes: int) -> None:
    """Losses of two steps, the second of which tells of the update, every collective's numbers, and how many of them
    torch sees in a step; of two ranks, and of four on two nodes that meet as Slurm's do."""
    module = ("-m", "tests.harness.ranks.checking")
    outputs = [torchrun(*module).stdout] if nodes == 1 else on_two_nodes(*module, numbered=False)
    lines = "".join(outputs).splitlines()
    errors = {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}
    assert len(errors) == len(OPS) + 7 + 2
    assert max(errors.values()) <= TOLERANCE, errors


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no kernel ends a process with its parent")
@pytest.mark.parametrize("when", ["a rank starts", "ranks work"])
def test_no_rank_outlives_a_killed_agent(when: str, tmp_path: Path) -> None:
    def now(ranks: set[int], printed: str) -> bool:
        return len(ranks) == 2 and (when == "a rank starts" or "calibrating" in printed)

    suite = ("-m", "harness", "run", "--suite", "collectives", "--results", str(tmp_path / "results"))
    assert killed(*suite, after=now, log=tmp_path / "log") == set()


def test_a_rank_whose_agent_is_gone_says_so() -> None:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    store = {"TORCHELASTIC_USE_AGENT_STORE": "True", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    rank = [sys.executable, "-c", "from harness.ranks.start import end_with_agent; end_with_agent()"]
    done = subprocess.run(
        rank, cwd=ROOT, env={**child_variables(), **store}, text=True, capture_output=True, check=False
    )
    assert "MASTER_ADDR: expected the store of the agent that started this rank" in done.stderr


@pytest.mark.slow
def test_a_suite_is_calibrated_predicted_and_written_once(tmp_path: Path) -> None:
    asked = ("-m", "harness", "run", "--suite", "collectives", "--case", "*op=all_gather,nbytes=*4*", "--json")
    first = torchrun(*asked, "--results", str(tmp_path))
    rows = [json.loads(line) for line in first.stdout.splitlines()]
    runs = scan(tmp_path)[0]
    assert [run.run for run in runs] == [row["run"] for row in rows]
    assert len(runs) >= 2
    for run in runs:
        assert run.status in ("ok", "unstable")
        assert run.measurement is not None
        assert run.forecast is not None
        assert run.forecast.low < run.forecast.seconds < run.forecast.high
        # Medians of one machine in one run: far apart only where a curve is not of what it says.
        assert 1 / 6 < run.measurement.seconds / run.forecast.seconds < 6
        assert run.measurement.error is not None
        assert run.measurement.error <= TOLERANCE
    (file,) = files(tmp_path, "*.toml")
    cluster = load_cluster(str(file))
    assert [each.op for each in cluster.measured] == ["all_gather"]
    # Cases lie between the points of the curve.
    assert not {run.params["nbytes"] for run in runs} & set(cluster.measured[0].sizes)
    again = torchrun(*asked, "--results", str(tmp_path))
    unstable = {run.case for run in runs if run.status == "unstable"}
    assert {json.loads(line)["case"] for line in again.stdout.splitlines()} == unstable
    assert "calibrating" not in again.stderr


@pytest.mark.slow
def test_a_list_runs_nothing(tmp_path: Path) -> None:
    listed = ("--list", "--json", "--case", "strategy=", "--results", str(tmp_path))
    done = torchrun("-m", "harness", "run", "--suite", "parallel", *listed)
    assert {json.loads(line)["params"]["strategy"] for line in done.stdout.splitlines()} == {
        "ddp",
        "fsdp",
        "tensor",
        "pipeline",
    }
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("words", ["--timeout 5", "--sizes 16x1", "--profile x.json", "--profile-time 3"])
def test_what_ranks_have_no_use_for_is_refused(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "7"}
    for name, value in place.items():
        monkeypatch.setenv(name, value)
    asked = ["run", "--suite", "parallel", *words.split()]
    with pytest.raises(Refused, match=f"{words.split()[0]}: expected another suite than parallel"):
        CliRunner().invoke(cli, asked, catch_exceptions=False, standalone_mode=False)


@pytest.mark.slow
def test_a_step_is_predicted_from_what_a_rank_computes_and_what_it_tells_the_others(tmp_path: Path) -> None:
    torchrun(*BRIEFLY, "run", "--suite", "parallel", "--case", "strategy=ddp", "--results", str(tmp_path))
    (run,) = scan(tmp_path)[0]
    assert run.forecast is not None
    assert run.measurement is not None
    assert run.forecast.by_component.keys() == {"compute", "all_reduce"}
    assert run.forecast.seconds == pytest.approx(sum(run.forecast.by_component.values()))
    assert run.measurement.error is not None
    assert run.measurement.error <= TOLERANCE
    assert run.metrics["tokens_per_second"] == pytest.approx(2 * BATCH * SEQ / run.measurement.seconds, rel=1e-4)


@pytest.mark.slow
def test_two_nodes_tell_links_within_from_those_between(tmp_path: Path) -> None:
    """Two agents of torchrun, two ranks each; the card's rate follows from what crosses between them."""
    asked = (*BRIEFLY, "run", "--suite", "collectives", "--case", "*all_gather,nbytes=49152,*")
    on_two_nodes(*asked, "--results", str(tmp_path), numbered=True)
    (run,) = scan(tmp_path)[0]
    assert (run.params["ranks"], run.params["near"]) == (4, 2)
    (file,) = files(tmp_path, "*-2x2.toml")
    cluster = load_cluster(str(file))
    assert {(each.ranks, each.near) for each in cluster.measured} == {(4, 2), (2, 2)}
    assert cluster.node == cluster.domain == 2
    assert cluster.card is not None
    assert 1e6 < cluster.card.rate < 1e12


DESCRIBED = """
[sources.measured]
document = "a test"
where = "here"
url = "https://example.org"
read = 2026-11-23
confirmed = true

[clusters.mine]
title = "mine"
gpu = "{gpu}"
node = 8
domain = 8
fast = "measured"
most = 8

[[clusters.mine.measured]]
op = "all_reduce"
ranks = 8
near = 8
sizes = [1024, 1048576, 1073741824]
seconds = [{seconds}]
"""


def described(tmp_path: Path, seconds: str = "1e-5, 1e-4, 1e-1", gpu: str = "h100-sxm") -> str:
    made = tmp_path / f"{abs(hash((seconds, gpu)))}.toml"
    made.write_text(DESCRIBED.format(seconds=seconds, gpu=gpu))
    return str(made)


def test_what_was_measured_stands_in_predictions_in_place_of_the_links(tmp_path: Path) -> None:
    import calc

    spec = calc.load_model("gpt2")
    asked: dict[str, Any] = {"phase": "training", "dp": 8, "batch": 1, "seq": 1024, "stack": "pytorch"}
    slow, fast = (
        predict(spec, "h100-sxm", cluster=load_cluster(described(tmp_path, seconds)), **asked).seconds
        for seconds in ("1e-5, 1e-4, 9.0", "1e-5, 1e-4, 1e-3")
    )
    assert slow > fast + 0.5


@pytest.mark.parametrize(("seconds", "expected"), [
    ("1e-5, 1e-4", "sizes"),
    ("1e-5, 1e-4, 1e-6", "seconds"),
    ("1e-5, 1e-4, -1.0", "seconds"),
    ("1e-5, 1e-4, inf", "seconds"),
    ("1e-5, 1e-4, nan", "seconds"),
])  # fmt: skip
def test_curves_that_are_none_are_refused(tmp_path: Path, seconds: str, expected: str) -> None:
    with pytest.raises(Refused, match=expected):
        load_cluster(described(tmp_path, seconds))


def test_a_curve_of_processors_needs_no_device_of_the_catalogue(tmp_path: Path) -> None:
    cluster = load_cluster(described(tmp_path, gpu="cpu-of-mine-2-cores"))
    models = measured_models(cluster, 8)
    assert models["all_reduce"].seconds(2**20, 8) == pytest.approx(1e-4)
    assert measured_models(cluster, 4) == {}


@pytest.mark.parametrize("ranks", [2, 3, 4, 8, 16])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("suite", list(RANK_SUITES))
def test_suites_have_cases_for_any_number_of_ranks(suite: str, device: Any, ranks: int) -> None:
    cases = list(RANK_SUITES[suite](Place(0, ranks, 0, ranks), device))
    assert len({case.id for case in cases}) == len(cases) >= 2
    for case in cases:
        assert make(case.kind, case.params) == case
        assert case.counts()
        assert all(each.nbytes > 0 and each.calls > 0 for each in case.collectives())


def test_bytes_that_ranks_say_are_those_of_the_model() -> None:
    import calc
    from harness.cases.models import spec_of

    params = int(calc.estimate(spec_of("tiny-llama"), "params").value)
    (grads,) = ParallelTrainingCase("tiny-llama", 64, 2, 2, "ddp").collectives()
    assert grads.nbytes == 4 * params
    sharded = ParallelTrainingCase("tiny-llama", 64, 2, 2, "fsdp").collectives()
    root = min(each.nbytes for each in sharded if each.op == "all_gather" and each.calls == 1) / 4
    assert sum(each.nbytes * each.calls for each in sharded) == 4 * (3 * params - root)
    assert root == params - sum(each.nbytes / 4 for each in sharded if each.calls == 2)
    # Megatron: two sums of [batch, seq, d_model] forward and two backward a layer; the vocabulary is not divided here.
    tensor = ParallelTrainingCase("tiny-llama", 64, 2, 2, "tensor").collectives()
    assert sum(each.calls for each in tensor) == 4 * 4
    assert {each.nbytes for each in tensor} == {4.0 * 2 * 64 * 128}
    keys = ExchangeCase("tiny-llama", "context", 64, 1, 2).collectives()
    assert {each.op for each in keys} == {"all_gather", "reduce_scatter"}


def test_without_torchrun_a_line_says_how_it_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    done = CliRunner().invoke(cli, ["run", "--suite", "collectives"])
    assert isinstance(done.exception, Refused)
    assert "torchrun --nproc-per-node" in str(done.exception)
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    for name, value in {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    assert place_of() == Place(0, 2, 0, 2)
    done = CliRunner().invoke(cli, ["run", "--suite", "quick"])
    assert isinstance(done.exception, Refused)
    assert "under torchrun" in str(done.exception)


@pytest.mark.parametrize(("name", "value"), [
    ("RANK", "2"),
    ("RANK", "-1"),
    ("RANK", "x"),
    ("WORLD_SIZE", "1"),
    ("LOCAL_RANK", "5"),
    ("LOCAL_WORLD_SIZE", "9" * 30),
])  # fmt: skip
def test_variables_that_are_no_place_are_refused(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    given = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "x"}
    for each, own in (given | {name: value}).items():
        monkeypatch.setenv(each, own)
    with pytest.raises(Refused):
        place_of()


@pytest.mark.parametrize(("kind", "params", "field"), [
    ("parallel_training", {"model": "tiny-gpt", "seq": 9, "strategy": "pipeline", "micro_batches": 2}, "model"),
    ("parallel_training", {"model": "tiny-llama", "seq": 9, "strategy": "pipeline"}, "micro_batches"),
    ("parallel_training", {"model": "tiny-llama", "seq": 9, "ranks": 3, "strategy": "tensor"}, "ranks"),
    ("exchange", {"model": "tiny-llama", "between": "experts", "seq": 8}, "ep"),
    ("exchange", {"model": "tiny-llama", "between": "context", "seq": 9}, "seq"),
    ("collective", {"op": "all_reduce", "nbytes": 8192, "near": 2}, "near"),
])  # fmt: skip
def test_cases_that_cannot_be(kind: str, params: dict[str, Any], field: str) -> None:
    with pytest.raises(Refused, match=rf"^{re.escape(kind)}.*{field}|^{field}"):
        make(kind, params)


def test_a_case_of_several_ranks_says_so_where_there_is_one() -> None:
    with pytest.raises(NotImplementedError, match="torchrun"):
        CollectiveCase("send", 8192).ready("cpu")
