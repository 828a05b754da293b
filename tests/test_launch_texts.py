"""What the documents show for schedulers that no test has: it is shell that is read whole, and YAML."""

from __future__ import annotations

import re
import subprocess

import yaml

from tests.reference import ROOT

TEXT = (ROOT / "docs" / "clusters-of-machines.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


def test_scripts_of_slurm_are_shell_and_start_what_there_is() -> None:
    scripts = blocks("bash")
    assert len(scripts) == 2
    for script in scripts:
        assert subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, check=False).stderr == ""
        assert "-m harness" in script


def test_the_job_of_kubernetes_is_yaml_whose_ranks_find_one_another() -> None:
    (text,) = blocks("yaml")
    service, job = yaml.safe_load_all(text)
    pod = job["spec"]["template"]["spec"]
    assert pod["subdomain"] == service["metadata"]["name"]
    (container,) = pod["containers"]
    words = container["command"]
    assert f"--nnodes={job['spec']['completions']}" in words
    assert f"--master-addr={job['metadata']['name']}-0.{pod['subdomain']}" in words
    assert words[words.index("-m") : words.index("-m") + 5] == ["-m", "harness", "run", "--suite", "collectives"]
