"""Progress of what takes longer than two seconds, on stderr."""

from __future__ import annotations

import sys
import time

import click

_PATIENCE = 2.0


class Progress:
    """Called with what is done, how much of it, and how much there is: quiet at first, then a line now and again.

    In a terminal the line is written over; elsewhere there is a new one every two seconds. What was shown unfinished is
    shown once more when all of it is done.
    """

    def __init__(self) -> None:
        self._next = time.monotonic() + _PATIENCE
        self._terminal = sys.stderr is not None and sys.stderr.isatty()
        self._shown = self._unfinished = False

    def __call__(self, what: str, done: int, total: int) -> None:
        now = time.monotonic()
        if now < self._next and not (self._unfinished and done == total):
            return
        self._unfinished = done < total
        self._next = now + (0.2 if self._terminal else _PATIENCE)
        self._shown = True
        before = "\r\033[K" if self._terminal else ""
        click.echo(f"{before}{what}: {done:,} of {total:,}", nl=not self._terminal, err=True)

    def close(self) -> None:
        """Take the line away again."""
        if self._shown and self._terminal:
            click.echo("\r\033[K", nl=False, err=True)
