"""What is handed to workers, and what comes back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

Each = TypeVar("Each")

Array = Any
"""A numpy array of one dimension."""
Progress = Callable[[str, int, int], None]
"""Called with what is done, how much of it, and how much there is."""


def one_by_one(what: str, items: Sequence[Each], progress: Progress | None) -> Iterator[Each]:
    """The items in turn. progress: told how many of them are done, at last of all."""
    for done, each in enumerate(items):
        if progress is not None:
            progress(what, done, len(items))
        yield each
    if progress is not None:
        progress(what, len(items), len(items))


@dataclass(frozen=True, slots=True)
class Part:
    """The result of a chunk. columns: by name, all of one length. facts: all else, as plain JSON values."""

    columns: Mapping[str, Array] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)


Work = Callable[[Any, Any], Part]
"""A function of a module, not of another function: (what all chunks share, a chunk) -> its part."""


@dataclass(frozen=True)
class Job:
    """So many chunks of one kind of work.

    name: of its folder where parts are kept. described: tells all that the parts depend on besides the code, as JSON
    values.
    shared: what every chunk needs, sent to each worker once. chunks: may be made as they are asked for. kind: of a
    chunk; a worker that had one of a kind has done part of the work of the next. None: all are of their own.
    """

    name: str
    described: Callable[[], Mapping[str, Any]]
    work: Work
    shared: Any
    chunks: Iterable[Any]
    count: int
    kind: Callable[[Any], Any] | None = None


class Backend(Protocol):
    """Where chunks are worked on. slots: how many may be under way, those that wait for a worker among them."""

    @property
    def slots(self) -> int: ...

    def submit(self, place: int, chunk: Any) -> None:
        """Begin a chunk."""
        ...

    def finished(self) -> Iterator[tuple[int, Part]]:
        """What has been finished since, after a moment's wait at most; nothing where nothing has.

        Errors: whatever the work raises; ChildProcessError for a chunk whose worker ends again and again.
        """
        ...

    def close(self) -> None:
        """Give back what was taken; what is under way is given up."""
        ...


def lost(place: int, times: int) -> ChildProcessError:
    """What is raised for a chunk that no worker survives."""
    return ChildProcessError(f"chunk {place} was begun {times} times, and its worker ended before it was done")
