"""Keeping freed memory of the host, as CUDA's caching allocator keeps that of a GPU."""

from __future__ import annotations

import ctypes
import sys

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4
"""Parameters of mallopt(3)."""


def keep_freed_memory() -> bool:
    """From now on the C library hands freed memory out again instead of returning it to the system.

    Otherwise a step that frees its activations asks for them anew the next time, page by page: up to a sixth of a
    training step on a CPU, and a different part of each. Profile and cases are measured alike.
    Returns whether the C library is one that can be told so (glibc).
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_MMAP_MAX, 0)) and bool(mallopt(_TRIM_THRESHOLD, -1))


def touch(nbytes: int) -> None:
    """Ask for that much memory once, write to it and free it, so that what follows finds it there."""
    bytearray(nbytes)
