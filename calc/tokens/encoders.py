"""What counts tokens: a tokenizer.json, a file of ranks, or so many bytes a token. The first two need the extra."""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from calc.errors import Refused
from calc.reading.files import parse_json, read_text
from calc.tokens.boundaries import OPEN, Cuts, cuts_of
from calc.tokens.patterns import of_ranks

PIP = "pip install -e '.[tokens]' in a clone"
MAX_TOKENIZER = 128 * 2**20
"""Bytes of a file with a tokenizer: the largest that are published have about 30 MB."""


class Encoder(Protocol):
    """Counts tokens. name: of its file. cuts: where a text may be cut; None: nowhere that is known."""

    @property
    def name(self) -> str: ...
    @property
    def vocab_size(self) -> int: ...
    @property
    def cuts(self) -> Cuts | None: ...
    def count(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text; none that a post-processor would put around it. Errors: Refused where it cannot."""
        ...


@dataclass(frozen=True, slots=True)
class LibraryEncoder:
    """A tokenizer.json, by the `tokenizers` library on all cores."""

    name: str
    library: Any
    cuts: Cuts | None

    @property
    def vocab_size(self) -> int:
        return self.library.get_vocab_size()

    def count(self, texts: Sequence[str]) -> list[int]:
        try:
            return list(map(len, self.library.encode_batch_fast(texts, add_special_tokens=False)))
        except Exception as error:  # the library raises bare Exceptions, as for a missing unknown token
            raise Refused(self.name, "a tokenizer that takes this text", str(error)) from None


@dataclass(frozen=True, slots=True)
class RanksEncoder:
    """A file of ranks, by the `tiktoken` library on all cores; special tokens in a text are text."""

    name: str
    library: Any
    vocab_size: int
    cuts: Cuts | None = OPEN

    def count(self, texts: Sequence[str]) -> list[int]:
        found = self.library.encode_ordinary_batch(list(texts), num_threads=os.cpu_count() or 1)
        return list(map(len, found))


def load_encoder(path: str | Path, pattern: str | None = None) -> Encoder:
    """The tokenizer in a file: NAME.json as the `tokenizers` library writes it, or NAME.tiktoken.

    pattern: for a .tiktoken file whose name is not known (`calc.tokens.patterns`), which holds none of its own.
    Errors: Refused for other files, for what cannot be read, and without the extra `tokens`.
    """
    path = Path(path)
    if path.suffix not in (".json", ".tiktoken"):
        raise Refused("--tokenizer", "a tokenizer.json or a .tiktoken file", str(path))
    if path.suffix == ".tiktoken":
        return _ranks(path, read_text(path, MAX_TOKENIZER), pattern)
    if pattern is not None:
        raise Refused("--pattern", "a .tiktoken file; a tokenizer.json holds its own", str(path))
    return from_description(read_text(path, MAX_TOKENIZER), str(path))


def from_description(text: str, where: str) -> LibraryEncoder:
    """The tokenizer that the text of a tokenizer.json describes; nothing is cut short, filled up or left to chance.

    Errors: Refused for what is none, and without the extra.
    """
    description = parse_json(text, where)
    try:
        import tokenizers
    except ModuleNotFoundError as error:
        raise Refused("--tokenizer", f"the extra tokens: {PIP}", f"no module {error.name}") from None
    if not isinstance(description.get("model"), dict):
        raise Refused(where, "a tokenizer.json with a model", "none")
    try:
        library = tokenizers.Tokenizer.from_str(text)
    except Exception as error:  # a bare Exception is all that the library raises
        raise Refused(where, "a tokenizer.json that the tokenizers library reads", str(error)) from None
    library.no_truncation()
    library.no_padding()
    if getattr(library.model, "dropout", None):
        library.model.dropout = None
    return LibraryEncoder(where, library, cuts_of(description))


def _ranks(path: Path, text: str, pattern: str | None) -> RanksEncoder:
    where = str(path)
    chosen = of_ranks(path.stem, pattern)
    ranks = dict(_rank(line, f"{where}: line {i}") for i, line in enumerate(text.splitlines(), 1) if line.strip())
    if len({*ranks.values()}) < len(ranks) or min(ranks.values(), default=-1) < 0:
        raise Refused(where, "ranks from 0 on, each once", f"{len(ranks)} tokens")
    if any(bytes([byte]) not in ranks for byte in range(256)):
        raise Refused(where, "a rank for each of the 256 bytes", "some without")
    try:
        import tiktoken
    except ModuleNotFoundError as error:
        raise Refused("--tokenizer", f"the extra tokens: {PIP}", f"no module {error.name}") from None
    library = tiktoken.Encoding(path.stem, pat_str=chosen, mergeable_ranks=ranks, special_tokens={})
    return RanksEncoder(where, library, max(ranks.values()) + 1)


def _rank(line: str, where: str) -> tuple[bytes, int]:
    """A token and its rank."""
    try:
        token, rank = line.split()
        return base64.b64decode(token, validate=True), int(rank)
    except (ValueError, binascii.Error):
        raise Refused(where, "a token in base64 and its rank", line[:40]) from None
