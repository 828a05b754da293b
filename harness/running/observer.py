"""What a sweep says while it runs: nothing, lines, or a bar in a terminal, each with the time that is left."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence

import click

from calc.units import duration
from harness.cases.case import Case
from harness.record import Run

GUESS = 5.0
"""Seconds of a case while none has been seen."""


class Cancelled(Exception):
    """Somebody wants the sweep to stop: raised by `tick`, and it ends with what is finished."""


class Observer:
    """Is told what a sweep does, and does nothing about it; `left()` estimates the seconds to its end."""

    def begin(self, cases: Sequence[Case], wall: Callable[[str], float | None]) -> None:
        """The cases, and how long each took when it last ran here."""
        self._usual = [wall(case.id) for case in cases]
        self._seen: list[float] = []
        self.total = len(cases)
        self.done = 0
        self._since = time.monotonic()

    def case(self, index: int, case: Case) -> None:
        """A case begins."""
        self._since = time.monotonic()

    def stage(self, text: str) -> None:
        """What the worker is doing with it."""

    def tick(self) -> None:
        """Time passes. May raise to end the sweep."""

    def known(self, index: int, case: Case) -> None:
        """A case had been measured before."""
        self.done = index + 1

    def row(self, index: int, run: Run) -> None:
        """A case has ended, and its row is on the disk."""
        self.done = index + 1
        self._seen.append(run.wall)

    def note(self, text: str) -> None:
        """A word beside the results."""

    def end(self, interrupted: bool) -> None:
        """The sweep is over, as it should be or because somebody wanted it."""

    def close(self) -> None:
        """Give back what was taken to show things, however the sweep ended."""

    def left(self) -> float:
        """Seconds to the end: what each case took last time, or what cases take on average in this sweep."""
        average = sum(self._seen) / len(self._seen) if self._seen else GUESS
        rest = sum(average if usual is None else usual for usual in self._usual[self.done :])
        return max(0.0, rest - (time.monotonic() - self._since if self.done < self.total else 0.0))


class Lines(Observer):
    """A line a case on stderr."""

    def row(self, index: int, run: Run) -> None:
        super().row(index, run)
        self._say(f"[{index + 1}/{self.total}] {line(run)}  ({clock(self.left())} left)")

    def stage(self, text: str) -> None:
        if text.startswith("waiting"):
            self._say(text)

    def note(self, text: str) -> None:
        self._say(f"note: {text}")

    def _say(self, text: str) -> None:
        click.echo(text, err=True)


class Bar(Observer):
    """A bar that moves, below a line a case, on a terminal's stderr."""

    def begin(self, cases: Sequence[Case], wall: Callable[[str], float | None]) -> None:
        super().begin(cases, wall)
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

        columns = (SpinnerColumn(), BarColumn(24), MofNCompleteColumn(), TextColumn("{task.fields[left]} left"))
        what = TextColumn("{task.description}", markup=False)
        self._bar = Progress(*columns, what, console=Console(stderr=True, highlight=False), transient=True)
        self._task = self._bar.add_task("", total=self.total, left=clock(self.left()))
        self._what = self._stage = ""
        self._bar.start()

    def case(self, index: int, case: Case) -> None:
        super().case(index, case)
        self._what = case.id
        self._draw()

    def stage(self, text: str) -> None:
        self._stage = text
        self._draw()

    def tick(self) -> None:
        self._draw()

    def known(self, index: int, case: Case) -> None:
        super().known(index, case)
        self._draw()

    def row(self, index: int, run: Run) -> None:
        super().row(index, run)
        self._bar.console.print(line(run), markup=False)
        self._draw()

    def note(self, text: str) -> None:
        self._bar.console.print(f"note: {text}", markup=False)

    def close(self) -> None:
        if self._started:
            self._bar.stop()

    @property
    def _started(self) -> bool:
        """Whether there is a bar: the worker is started, and ticks, before the cases are known."""
        return hasattr(self, "_task")

    def _draw(self) -> None:
        if self._started:
            what = f"{self._stage} {self._what}"
            self._bar.update(self._task, completed=self.done, left=clock(self.left()), description=what)


def for_stderr() -> Observer:
    """What suits the stderr of this process."""
    return Bar() if sys.stderr is not None and sys.stderr.isatty() else Lines()


def line(run: Run) -> str:
    """One row as a person reads it: how it ended, how long it takes, and how far the forecast was off."""
    words = [f"{run.status:<11} {run.case}"]
    if run.measurement is not None:
        words.append(f"{duration(run.measurement.seconds)} ± {run.measurement.width / 2:.1%}")
        if run.forecast is not None:
            words.append(f"predicted {duration(run.forecast.seconds)}")
    return "  ".join([*words, run.reason] if run.reason else words)


def clock(value: float) -> str:
    """Seconds as minutes and seconds."""
    return f"{int(value) // 60}:{int(value) % 60:02d}"
