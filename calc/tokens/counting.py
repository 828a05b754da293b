"""Tokens of files: read by one thread, encoded on all cores by the library, counted here."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from calc.errors import Refused
from calc.tokens.encoders import Encoder
from calc.tokens.streaming import Batch, batches, open_text, text_blocks


@dataclass(slots=True)
class Tally:
    """What has been counted of one file so far.

    n_words: runs of what is not whitespace. n_replaced: times that U+FFFD took the place of what is not UTF-8.
    """

    path: str
    size: int = 0
    n_bytes: int = 0
    tokens: int = 0
    n_words: int = 0
    n_replaced: int = 0


def count_file(tally: Tally, encoder: Encoder | float, progress: Callable[[str, int, int], None] | None = None) -> None:
    """Count the file `tally.path` into `tally`, which always says how far it came.

    encoder: or so many bytes a token. progress: called with the path, the bytes counted, and the file's size.
    Errors: Refused for what is no text file, or cannot be encoded.
    """
    file, tally.size = open_text(Path(tally.path))
    read = _read_only(file) if isinstance(encoder, int | float) else batches(file, tally.path, encoder.cuts)
    with file, closing(_ahead(read)) as parts:
        try:
            for batch in parts:
                tally.tokens += 0 if isinstance(encoder, int | float) else sum(encoder.count(batch.texts))
                tally.n_bytes, tally.n_words, tally.n_replaced = batch.n_bytes, batch.n_words, batch.n_replaced
                if isinstance(encoder, int | float):
                    tally.tokens = round(tally.n_bytes / encoder)
                if progress is not None:
                    progress(tally.path, tally.n_bytes, tally.size)
        except OSError as error:
            raise Refused(tally.path, "a file that can be read", error.strerror or str(error)) from None


def _read_only(file: BinaryIO) -> Iterator[Batch]:
    """What has been read of a file, block by block, without its text."""
    return (seen for _, seen in text_blocks(file))


def _ahead(parts: Iterator[Batch]) -> Generator[Batch]:
    """The same, each next one being read while the last is encoded: the libraries leave the interpreter free."""
    with ThreadPoolExecutor(1) as reader:
        waiting = reader.submit(next, parts, None)
        while (batch := waiting.result()) is not None:
            waiting = reader.submit(next, parts, None)
            yield batch
