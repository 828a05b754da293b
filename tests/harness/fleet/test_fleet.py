"""A fleet on a Ray cluster of several nodes on this machine: every case once, whatever becomes of nodes and drivers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

pytest.importorskip("torch")

from calc.errors import Refused
from calc.time.models.gemm import GemmModel
from calc.time.models.limits import Limits
from calc.workers.ray_cluster import connected
from harness.__main__ import cli
from harness.cases import Case, make
from harness.cases.matmul import MatmulCase
from harness.cases.passes import PassCase
from harness.environment import cpu_slug
from harness.fleet.devices import Hold, holds
from harness.fleet.fleet import Fleet, Plan
from harness.measuring.timing import Effort
from harness.profiling.profiler import write_profile
from harness.record import Environment
from harness.store import scan
from tests.reference import ROOT
from tests.time.test_speed import profile
from tests.waiting import PATIENCE
from tests.workers.cluster import STORE, cluster

QUICK = Effort(goal=0.5, limit=0.1, warmup=0.05, patience=1.0)


def few(suite: str, environment: Environment) -> list[Case]:
    """Cases that take no time."""
    return [*(MatmulCase(64, 64, n, dtype="fp32") for n in (16, 32, 48, 64, 80)), PassCase("copy", 2**14, "fp32")]


def node(alive: bool = True, **resources: float) -> dict[str, Any]:
    return {"Alive": alive, "Resources": {name.replace("__", ":"): n for name, n in resources.items()}}


def test_a_device_is_a_gpu_or_a_node_without_one() -> None:
    nodes = [
        node(CPU=64.0, GPU=8.0, accelerator_type__H100=1.0, memory=1e12),
        node(CPU=8.0, GPU=1.0, accelerator_type__A100=1.0),
        node(CPU=4.0),
        node(CPU=0.0),
        node(alive=False, CPU=4.0, GPU=4.0),
    ]
    found = holds(nodes)
    assert Counter(hold.kind for hold in found) == {"H100": 8, "A100": 1, "cpu": 1}
    assert found[0] == Hold("H100", "cuda", 8.0, 1.0, (("accelerator_type:H100", 0.001),))
    assert found[-1].options() == {"num_cpus": 4.0, "num_gpus": 0.0, "resources": {}, "max_restarts": 0}
    assert {hold.kind for hold in holds(nodes, "A100")} == {"A100"}
    # A hold of nothing but cores would fit the other's node too.
    named = holds(
        [node(CPU=1.0) | {"NodeID": "a" * 56}, node(CPU=1.0, accelerator_type__OLD=1.0) | {"NodeID": "b" * 56}]
    )
    assert [hold.options()["scheduling_strategy"].node_id for hold in named] == ["a" * 56, "b" * 56]
    assert not any(hold.options()["scheduling_strategy"].soft for hold in named)
    with pytest.raises(Refused, match="--type: expected one of A100, H100, cpu"):
        holds(nodes, "H200")
    with pytest.raises(Refused, match="--ray"):
        holds([node(alive=False, CPU=4.0)])


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    """A head that measures nothing, and a bench beside it."""
    with cluster(0, 1) as made:
        yield made


def plan(tmp_path: Path) -> Plan:
    return Plan("quick", tmp_path, effort=QUICK, choose=few)


@pytest.mark.slow
def test_nodes_that_die_lose_no_case_and_repeat_none(nodes: Any, tmp_path: Path) -> None:
    """Two benches share the cases; one is killed while it measures, and another joins in its place."""
    doomed = nodes.add_node(num_cpus=1, object_store_memory=STORE)
    nodes.wait_for_nodes()
    killed: list[str] = []

    def tell(text: str) -> None:
        # Both measure from here on.
        if (not killed and ": ok " in text) or (": unstable " in text and not killed):
            killed.append(text)
            nodes.remove_node(doomed, allow_graceful=False)
            nodes.add_node(num_cpus=1, object_store_memory=STORE)

    with connected(nodes.address) as ray:
        found = holds(ray.nodes())
        assert [hold.kind for hold in found] == ["cpu", "cpu"]
        summary = Fleet(ray, plan(tmp_path), found, tell).run()
    assert killed
    runs = scan(tmp_path)[0]
    assert summary.left == 0
    assert sorted(run.case for run in runs) == sorted(case.id for case in few("", runs[0].environment))
    assert {run.status for run in runs} <= {"ok", "unstable"}


def two(suite: str, environment: Environment) -> list[Case]:
    return few(suite, environment)[:2]


@contextmanager
def one_core() -> Iterator[None]:
    """What is begun meanwhile has one core of this machine."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


@pytest.mark.slow
def test_devices_of_several_types_are_measured_each_by_its_own_forecasts(nodes: Any, tmp_path: Path) -> None:
    """Two types as Ray's resources name them, each with a profile, and a node whose GPU is not there."""
    with one_core():
        old = nodes.add_node(num_cpus=1, resources={"accelerator_type:OLD": 1}, object_store_memory=STORE)
    none = nodes.add_node(num_cpus=1, num_gpus=1, object_store_memory=STORE)
    nodes.wait_for_nodes()
    said: list[str] = []
    try:
        with connected(nodes.address) as ray:
            with one_core():
                alone = cpu_slug()
            slow = GemmModel.prior(Limits(peak=1e6, bandwidth=1e6, itemsize=4))
            profiles = {alone: profile(name=alone, gemm={"fp32": slow}), cpu_slug(): profile(name=cpu_slug())}
            for each in profiles.values():
                write_profile(each, tmp_path)
            made = replace(plan(tmp_path), choose=two)
            slugs: list[set[str]] = []
            for wanted in ("OLD", None):
                head = Fleet(ray, made, holds(ray.nodes(), wanted), said.append)
                slugs.append({row.environment.slug for row in head.run().rows})
            assert slugs[0] == {alone}
            assert cpu_slug() in slugs[1]
            with pytest.raises(Refused, match="--ray: expected a node with a device that can be used, found device"):
                Fleet(ray, made, holds(ray.nodes(), "gpu"), said.append).run()
    finally:
        nodes.remove_node(old)
        nodes.remove_node(none)
    assert head.unfit == [text.partition(": ")[2] for text in said if text.startswith("gpu cannot be used: ")][:1]
    runs = scan(tmp_path)[0]
    assert {run.environment.slug for run in runs} == {alone, cpu_slug()}
    for run in runs:
        assert run.forecast == make(run.kind, run.params).forecast(profiles[run.environment.slug])
    told = CliRunner().invoke(cli, ["report", "--results", str(tmp_path), "--json"])
    # On a busy machine rows may be unstable, of which the report shows none.
    if ok := {run.environment.slug for run in runs if run.status == "ok"}:
        assert set(json.loads(told.output)["devices"]) == ok
    else:
        assert isinstance(told.exception, Refused)
        assert told.exception.field == "--results"


@pytest.mark.slow
def test_a_killed_head_loses_no_row_and_the_next_goes_on(nodes: Any, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "harness", "fleet", "--ray", nodes.address, "--case", "pass/function=l", "--json"]
    command += ["--results", str(tmp_path)]
    made = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + PATIENCE
    while not scan(tmp_path)[0]:
        assert time.monotonic() < end
        assert made.poll() is None, made.communicate()
        time.sleep(0.05)
    made.kill()
    made.communicate(timeout=PATIENCE)
    before = scan(tmp_path)[0]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert {run.run for run in before}.isdisjoint(row["run"] for row in rows)
    runs = scan(tmp_path)[0]
    assert [run.run for run in runs] == [*(run.run for run in before), *(row["run"] for row in rows)]
    ok = Counter(run.case for run in runs if run.status == "ok")
    assert max(ok.values(), default=1) == 1
    assert len({run.case for run in runs}) == 2
