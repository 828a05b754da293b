"""What the documents show for schedulers that no test has: shell that is read whole, YAML, and lines that torchrun, Ray
and the harness take, expanded as a scheduler expands them."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import click
import pytest
import yaml

from harness.__main__ import cli
from tests.reference import ROOT

TEXT = (ROOT / "docs" / "clusters-of-machines.md").read_text()

SRUN = """#!/bin/sh
# Says what would be started, an argument a line.
for word in "$@"; do printf '%s\\n' "$word"; done >> "$TOLD.$$"
"""
SCONTROL = """#!/bin/sh
printf 'node-a\\nnode-b\\nnode-c\\nnode-d\\n'
"""


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


def started(script: str, folder: Path) -> list[list[str]]:
    """What a script hands to srun, in the variables that Slurm sets, with commands of Slurm that only note it."""
    for name, text in (("srun", SRUN), ("scontrol", SCONTROL), ("sleep", "#!/bin/sh\n")):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    variables = {"PATH": f"{folder}:/usr/bin:/bin", "TOLD": str(folder / "told"), "SLURM_JOB_NODELIST": "node-[a-d]"}
    variables |= {"SLURM_NNODES": "4", "SLURM_JOB_ID": "77", "SLURM_SUBMIT_DIR": "/home/me/work"}
    done = subprocess.run(["bash", "-eu"], input=f"{script}wait\n", text=True, env=variables, capture_output=True)
    assert (done.returncode, done.stderr) == (0, "")
    return [file.read_text().splitlines() for file in sorted(folder.glob("told.*"))]


def taken_by_torchrun(words: list[str]) -> list[str]:
    """The module's arguments behind those of torchrun, which takes the line."""
    run = pytest.importorskip("torch.distributed.run")
    assert words[0] == "torchrun"
    found = run.parse_args(words[1:])
    assert found.training_script == "harness"
    assert found.module
    run.config_from_args(found)
    return list(found.training_script_args)


def taken_by_the_harness(words: list[str]) -> dict[str, object]:
    """The parameters of a command of ours, which takes the line."""
    context = click.Context(cli)
    command = cli.get_command(context, words[0])
    assert command is not None
    return command.make_context(words[0], words[1:], parent=context).params


def test_scripts_of_slurm_are_shell_and_start_what_there_is(tmp_path: Path) -> None:
    ranks, cluster = blocks("bash")
    (srun,) = started(ranks, tmp_path)
    asked = taken_by_the_harness(taken_by_torchrun(srun))
    assert asked["suite"] == "collectives"
    assert srun[srun.index("--rdzv-endpoint") + 1] == "node-a:29500"
    assert srun[srun.index("--nnodes") + 1] == "4"
    (tmp_path / "ray").mkdir()
    lines = started(cluster, tmp_path / "ray")
    ray = pytest.importorskip("ray.scripts.scripts")
    ways = {}
    for line in lines:
        begin = line.index("-w") if "-w" in line else line.index("-x")
        assert line[begin + 1] == "node-a"
        command = line[begin + 2 :]
        if command[0] == "ray":
            context = ray.start.make_context("start", command[2:])
            ways["head" if context.params["head"] else "others"] = context.params
        else:
            assert command[:3] == ["python", "-m", "harness"]
            ways["fleet"] = taken_by_the_harness(command[3:])
    assert ways["head"]["port"] == 6379
    assert ways["others"]["address"] == "node-a:6379"
    assert ways["fleet"]["address"] == "auto"


def test_the_job_of_kubernetes_is_yaml_whose_ranks_find_one_another() -> None:
    (text,) = blocks("yaml")
    service, job = yaml.safe_load_all(text)
    pod = job["spec"]["template"]["spec"]
    assert pod["subdomain"] == service["metadata"]["name"]
    (container,) = pod["containers"]
    words = [word.replace("$(JOB_COMPLETION_INDEX)", "1") for word in container["command"]]
    assert shlex.join(words).count("$") == 0
    assert taken_by_the_harness(taken_by_torchrun(words))["suite"] == "collectives"
    assert f"--nnodes={job['spec']['completions']}" in words
    assert f"--master-addr={job['metadata']['name']}-0.{pod['subdomain']}" in words
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    assert {volume["name"] for volume in pod["volumes"]} == mounts.keys()
    assert words[-1] in mounts.values()
