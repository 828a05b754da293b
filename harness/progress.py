"""Progress with the time that is left, on stderr."""

from __future__ import annotations

from calc.output.progress import Progress


class TimeLeft:
    """Called with what is done, how much there is, and the seconds left; shown as `calc` shows its progress."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._progress = Progress()

    def __call__(self, done: int, total: int, left: float) -> None:
        self._progress(f"{self._what}, {left:,.0f} s left at most", done, total)

    def close(self) -> None:
        """Take the line away again."""
        self._progress.close()
