"""Ctrl-C as a question that is asked between chunks, and not in the middle of one."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def stoppable() -> Iterator[threading.Event]:
    """An event that Ctrl-C sets; a second Ctrl-C ends at once, as ever. In other threads nothing is changed."""
    stopped = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stopped
        return
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN or before is None:
        yield stopped
        return

    def stop(number: int, frame: object) -> None:
        stopped.set()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, stop)
    try:
        yield stopped
    finally:
        signal.signal(signal.SIGINT, before)
