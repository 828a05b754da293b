"""Progress with the time that is left, on stderr."""

from __future__ import annotations

import sys
import time

import click

_PATIENCE = 2.0


class Left:
    """Called with what is done, how much there is, and the seconds left: nothing for two seconds, then a line.

    In a terminal the line is written over; elsewhere there is a new one every ten seconds.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._next = time.monotonic() + _PATIENCE
        self._terminal = sys.stderr is not None and sys.stderr.isatty()
        self._shown = False

    def __call__(self, done: int, total: int, left: float) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + (0.2 if self._terminal else 10.0)
        self._shown = True
        line = f"{self._what}: {done:,} of {total:,}, {left:,.0f} s left at most"
        click.echo(f"\r\033[K{line}" if self._terminal else line, nl=not self._terminal, err=True)

    def close(self) -> None:
        """Take the line away again."""
        if self._shown and self._terminal:
            click.echo("\r\033[K", nl=False, err=True)
