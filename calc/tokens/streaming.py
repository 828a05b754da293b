"""A text file of any size, in parts that can be counted one by one, in bounded memory.

Files are read as UTF-8. Bytes that are not UTF-8 become U+FFFD, as Python's `errors="replace"` has it, since
tokenizers take text; a file with a zero byte at its beginning is no text and is refused.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from calc.errors import Refused
from calc.reading.files import readable
from calc.tokens.boundaries import Cuts

BLOCK = 2**20
"""Bytes that are read at once."""
PART = 4096
"""Characters of a part, to the next cut: so few stay in a core's cache, which doubles the library's own speed."""
UNBROKEN = 4 * 2**20
"""Characters without a cut that are still counted, as one."""
_HEAD = 8192
_REPLACEMENT = b"\xef\xbf\xbd"


class Batch(NamedTuple):
    """Parts that follow each other, and what was read of the file when they are counted.

    n_words: runs of what is not whitespace. n_replaced: U+FFFD in the text that were no such character in the file.
    """

    texts: list[str]
    n_bytes: int
    n_words: int
    n_replaced: int


def open_text(path: Path) -> tuple[BinaryIO, int]:
    """A file, from its beginning, and its size. Errors: Refused for what is no text file that can be read."""
    with readable(path, "a text file") as file:
        if b"\0" in file.read(_HEAD):
            raise Refused(str(path), "text in UTF-8", "a binary file")
        return path.open("rb"), path.stat().st_size


def batches(file: BinaryIO, where: str, cuts: Cuts | None) -> Iterator[Batch]:
    """The parts of a file, in order; together they are its text. cuts: None leaves it whole.

    Errors: Refused where UNBROKEN characters have no place to cut, and OSError.
    """
    rest, scanned, first = "", 0, True
    for text, seen in text_blocks(file):
        rest += text
        ends, scanned = _ends(rest, scanned, cuts)
        texts = [rest[start:end] for start, end in zip([0, *ends], ends, strict=False)]
        if ends:
            rest, scanned = rest[ends[-1] :], scanned - ends[-1]
        if len(rest) > UNBROKEN:
            why = "a place to cut, as behind a word, in every 4 Mi characters"
            raise Refused(where, why if cuts else "at most 4 Mi characters for a tokenizer of unknown cuts", "none")
        yield seen._replace(texts=_without_space(texts, cuts, first))
        first = first and not texts
    if rest:
        yield seen._replace(texts=_without_space([rest], cuts, first))


def _without_space(texts: list[str], cuts: Cuts | None, first: bool) -> list[str]:
    """The texts as they are handed on: see `Cuts.drops_space`."""
    if cuts is None or not cuts.drops_space:
        return texts
    return [text if first and i == 0 else text[1:] for i, text in enumerate(texts)]


def _ends(text: str, scanned: int, cuts: Cuts | None) -> tuple[list[int], int]:
    """Where parts of `text` end, and up to where no further cut is. The last character waits for what follows it."""
    ends: list[int] = []
    while cuts is not None:
        start = max(scanned, (ends[-1] if ends else 0) + PART)
        found = cuts.at.search(text, start) if start < len(text) else None
        if found is None:
            return ends, max(scanned, len(text) - 1)
        ends.append(found.start())
    return ends, scanned


def text_blocks(file: BinaryIO) -> Iterator[tuple[str, Batch]]:
    """A file as text, block by block, and what has been read with each."""
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    n_bytes = n_words = n_replaced = 0
    tail, inside, more = b"", False, True
    while more:
        data = file.read(BLOCK)
        more = bool(data)
        text = decode(data, final=not more)
        n_bytes += len(data)
        n_words += len(text.split()) - (inside and not text[:1].isspace() and bool(text))
        inside = not text[-1:].isspace() if text else inside
        n_replaced += text.count("\ufffd") - (tail + data).count(_REPLACEMENT)
        tail = (tail + data)[-2:]
        if text:
            yield text, Batch([], n_bytes, n_words, n_replaced)
