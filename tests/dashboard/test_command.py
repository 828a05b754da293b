"""Starting the server: on this machine alone, with settings that keep everything on it."""

from __future__ import annotations

import ast
import http.client
import os
import signal
import socket
import subprocess
import sys
import time
import tomllib

import pytest
from click.testing import CliRunner

from calc.cli import COMMANDS, OTHER_COMMANDS, cli
from calc.errors import Refused
from dashboard import command
from tests.reference import ROOT
from tests.waiting import PATIENCE


def test_the_command_stands_among_those_of_calc() -> None:
    assert set(OTHER_COMMANDS) == {"dashboard"}
    assert not set(OTHER_COMMANDS) & set(COMMANDS)
    shown = CliRunner().invoke(cli, ["dashboard", "--help"])
    assert shown.exit_code == 0
    assert "python -m calc dashboard --port 8600 --no-open" in shown.output


def test_a_checkout_and_a_wheel_have_the_same_settings() -> None:
    file = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text())
    theme = file.pop("theme")
    both = {name: theme.pop(name) for name in ("light", "dark")}
    tables = {f"theme.{name}": own for name, own in both.items()} | file | {"theme": theme}
    flat = {f"{table}.{name}": str(value).lower() for table, own in tables.items() for name, value in own.items()}
    assert flat.pop("server.address") == "localhost"
    assert flat == command.SETTINGS
    line = command.line(8600, "localhost", browser=False)
    assert "--server.address=localhost" in line
    assert "--browser.gatherUsageStats=false" in line
    assert str(command.SCRIPT) in line
    scripts = [ast.parse(path.read_text()) for path in (command.SCRIPT, ROOT / "app.py")]
    assert len({ast.dump(ast.Module(script.body[1:], [])) for script in scripts}) == 1  # all but the docstring


def test_a_port_that_is_taken_is_said_in_one_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        words = [sys.executable, "-m", "dashboard", "--address", "127.0.0.1", "--port", str(port), "--no-open"]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == (
        f"error: --port: expected a free port of that address, found 127.0.0.1:{port}, Address already in use\n"
    )
    with pytest.raises(Refused, match=r"--address: expected an address of this machine, found nowhere\.invalid"):
        cli.main(["dashboard", "--address", "nowhere.invalid"], standalone_mode=False)


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "find_spec", lambda name: None)
    with pytest.raises(Refused, match=r"pip install -e '\.\[dashboard\]' in a clone"):
        cli.main(["dashboard"], standalone_mode=False)


@pytest.mark.slow
def test_it_serves_on_loopback_until_interrupted() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [sys.executable, "-m", "dashboard", "--port", str(port), "--no-open", "--json"]
    server = subprocess.Popen(
        words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert healthy(port), server.poll()
    finally:
        os.killpg(server.pid, signal.SIGINT)
        output, messages = server.communicate(timeout=PATIENCE)
    assert output.splitlines()[:2] == [
        f'{{"url": "http://localhost:{port}"}}',
        f"Envelope is at http://localhost:{port} (Ctrl-C stops it)",
    ]
    assert server.returncode == 130
    assert messages.splitlines()[-1] == "error: interrupted"


def healthy(port: int, seconds: float = PATIENCE, host: str = "localhost") -> bool:
    """Whether the server answers within so long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        connection = http.client.HTTPConnection(host, port, timeout=PATIENCE)
        try:
            connection.request("GET", "/_stcore/health")
            return connection.getresponse().read() == b"ok"
        except OSError:
            time.sleep(0.1)
        finally:
            connection.close()
    return False
