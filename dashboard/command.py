"""`envelope dashboard`: start the server on this machine."""

from __future__ import annotations

import socket
import subprocess
from importlib.util import find_spec
from pathlib import Path

import click

from calc.errors import Refused
from dashboard.results import VARIABLE
from harness.cli.interrupting import terminated_as_interrupted
from harness.environment import PYTHON, child_variables

SCRIPT = Path(__file__).parent / "script" / "app.py"
HOSTS = "ENVELOPE_HOSTS"
"""Of the environment: further names under which the server may be reached (`dashboard.guard`), with commas between."""
PIP = "pip install -e '.[dashboard]' in a clone"
SETTINGS = {
    "browser.gatherUsageStats": "false",
    "client.showErrorDetails": "none",
    "client.toolbarMode": "minimal",
    "server.fileWatcherType": "none",
    "server.maxUploadSize": "2",
    "server.enableStaticServing": "false",
    "server.showEmailPrompt": "false",
    "global.disableWidgetStateDuplicationWarning": "true",
    "logger.hideWelcomeMessage": "true",
    "runner.postScriptGC": "false",
    "theme.metricValueFontSize": "1.6rem",
    "theme.light.textColor": "#000000",
    "theme.light.codeTextColor": "#000000",
    "theme.light.primaryColor": "#c4262e",
    "theme.light.linkColor": "#0b5cad",
    "theme.dark.textColor": "#ffffff",
    "theme.dark.codeTextColor": "#ffffff",
    "theme.dark.primaryColor": "#ff9a9a",
}
"""Streamlit's settings: nothing leaves the machine, uploads are small, and a fault shows no code. Collecting garbage
after each redraw, as Streamlit would, takes longer than the redraw itself, and all visitors wait for it: Python's own
collections are enough."""


@click.command(short_help="The web dashboard, on this machine.")
@click.option("--port", type=click.IntRange(1, 65535), default=8501, show_default=True, help="Where it listens.")
@click.option(
    "--address",
    default="localhost",
    show_default=True,
    help="On which of this machine's addresses. Whoever reaches it may start measurements here.",
)
@click.option(
    "--results",
    type=click.Path(path_type=Path),
    default=None,
    help="Folder of results that it shows, and that runs go to.  [default: results]",
)
@click.option(
    "--host",
    "hosts",
    metavar="NAME",
    multiple=True,
    help="A further name under which it is reached, as behind a proxy. Others are refused.",
)
@click.option("--open/--no-open", "browser", default=True, help="Open a browser.  [default: open]")
@click.option("--json", "as_json", is_flag=True, help="Print the address as one JSON object first.")
def dashboard(
    port: int, address: str, results: Path | None, hosts: tuple[str, ...], browser: bool, as_json: bool
) -> int:
    """Serve the dashboard until Ctrl-C. Nothing leaves the machine, and only it can reach the page.

    \b
    Example:
      python -m calc dashboard --port 8600 --no-open
    """
    if find_spec("streamlit") is None or find_spec("altair") is None or find_spec("vl_convert") is None:
        raise Refused("dashboard", f"the extra dashboard: {PIP}", "that it is not installed")
    _free(address, port)
    if as_json:
        click.echo(f'{{"url": "http://{address}:{port}"}}')
    variables = {HOSTS: ",".join(hosts)} if hosts else {}
    if results is not None:
        variables[VARIABLE] = str(results)
    with terminated_as_interrupted():  # or the server would outlive what started it
        return subprocess.run(line(port, address, browser), env=child_variables() | variables, check=False).returncode


def _free(address: str, port: int) -> None:
    """Errors: Refused where the server could not listen. Streamlit says it in many lines, and no option's name."""
    try:
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((address, port))
    except socket.gaierror as error:
        raise Refused("--address", "an address of this machine", f"{address}: {error.strerror}") from None
    except OSError as error:
        raise Refused("--port", "a free port of that address", f"{address}:{port}, {error.strerror}") from None


def line(port: int, address: str, browser: bool) -> list[str]:
    """The command that serves the pages."""
    own = {
        **SETTINGS,
        "server.port": str(port),
        "server.address": address,
        "server.headless": "false" if browser else "true",
    }
    flags = [f"--{name}={value}" for name, value in own.items()]
    return [*PYTHON, "-m", "streamlit", "run", str(SCRIPT), *flags]
