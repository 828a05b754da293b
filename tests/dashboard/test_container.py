"""The container file, as far as it can be tried without a container engine: what it copies, and what it starts."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import closing

import click
import pytest

from calc.cli import cli
from tests.dashboard.test_command import healthy
from tests.reference import ROOT
from tests.waiting import PATIENCE

FILE = (ROOT / "Containerfile").read_text()


def words(instruction: str) -> list[str]:
    return json.loads(re.findall(rf"^{instruction} (\[.*\])$", FILE, re.MULTILINE)[0])


def test_it_copies_what_a_build_reads_and_runs_as_its_own_user() -> None:
    copied = {name for line in re.findall(r"^COPY (.*) \S+$", FILE, re.MULTILINE) for name in line.split()}
    assert all((ROOT / name).exists() for name in copied)
    assert {"pyproject.toml", "README.md", "LICENSE", "calc", "harness", "reference_models", "dashboard"} <= copied
    assert re.findall(r"^USER (\S+)$", FILE, re.MULTILINE) == ["envelope"]


def test_every_start_in_it_has_options_that_exist() -> None:
    program, name, *fixed = words("ENTRYPOINT")
    command = cli.get_command(click.Context(cli), name)
    assert (program, name) == ("envelope", "dashboard")
    assert command is not None
    starts = re.findall(r"podman run .*? envelope\b([^#\n]*)", FILE)
    assert len(starts) == 3
    for given in [words("CMD"), *(start.split() for start in starts)]:
        assert command.make_context("dashboard", [*fixed, *given])
    published = re.findall(r"-p (?:[\d.]+:)?(\d+):(\d+)", FILE)
    assert {inside for _, inside in published} == {words("CMD")[-1]} == set(re.findall(r"^EXPOSE (\d+)$", FILE, re.M))


def test_it_binds_where_it_is_told_and_nowhere_else() -> None:
    """127.0.0.2 is this machine too; what listens there is not heard at 127.0.0.1."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.2", 0))
        port = probe.getsockname()[1]
    start = [sys.executable, "-c", "from calc.cli import main; main()", *words("ENTRYPOINT")[1:]]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [*start, "--address", "127.0.0.2", "--port", str(port)]
    server = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        assert healthy(port, host="127.0.0.2")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(PATIENCE)
