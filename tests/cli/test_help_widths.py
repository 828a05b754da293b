"""Help that a terminal of 80 columns does not break anew."""

from __future__ import annotations

import click
import pytest

from tests.cli.test_numbers import CALC, HARNESS

WIDTH = 80


@pytest.mark.parametrize(
    ("name", "command"), [*CALC, *HARNESS], ids=lambda each: " ".join(each) if isinstance(each, tuple) else "help"
)
def test_no_line_of_help_is_wider_than_a_terminal(name: tuple[str, ...], command: click.Command) -> None:
    """But for commands to be pasted, which would not run in two lines."""
    context = click.Context(command, info_name=" ".join(("python -m calc", *name)), terminal_width=WIDTH)
    wide = [line for line in command.get_help(context).splitlines() if len(line) > WIDTH]
    assert not wide
