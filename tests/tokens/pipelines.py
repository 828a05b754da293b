"""Tokenizers of every pipeline whose cuts are known, trained on a few lines."""

from __future__ import annotations

import base64
import json
from functools import cache
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

from calc.tokens.encoders import LibraryEncoder, from_description
from calc.tokens.patterns import patterns

CORPUS = [
    "The quick brown fox, it doesn't jump over 1,234 lazy dogs; they're asleep, I'm told.\n\nThen:  \n x\n",
    'def f(x):\n    if x > 10:\n        return 1999\n    return {"a": f(x + 1), "b": "c"}\n\t\r\n  \n',
    "Größe, naïve café. 大家好，欢迎来到这里。\n第二行 Привет мир! 🙂🙂👍🏽 e\u0301\u0301 ﷽ 𝒳𝒴 ½ ⒈, ㈠\n",
    "İ, ﬁ \u2028x\n/ab\n\n/",
] * 3
SPECIAL: list[Any] = ["<|end|>", AddedToken("<mask>", lstrip=True, rstrip=True)]
SPACES = AddedToken("   ", normalized=True)
"""As GPT-NeoX has them, whose tokenizer normalizes nothing that could make more of them."""


def _level(*before: Any, prefix: bool = False, regex: bool = False) -> Any:
    return pre_tokenizers.Sequence([*before, pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=regex)])


def _splits(splits: tuple[str, ...]) -> list[Any]:
    return [pre_tokenizers.Split(Regex(each), "isolated") for each in splits]


def _cutters() -> dict[str, tuple[Any, Any]]:
    """Name -> normalizer and pre-tokenizer."""
    known = {f"{each.name}-{i}": (None, _level(*_splits(each.splits))) for i, each in enumerate(patterns())}
    mark, gpt2 = pre_tokenizers.Metaspace, _level(regex=True)
    return known | {
        "level": (None, gpt2),
        "level-prefix": (None, _level(regex=True, prefix=True)),
        "digits": (None, _level(pre_tokenizers.Digits(individual_digits=True), regex=True)),
        "nfc": (normalizers.NFC(), gpt2),
        "nfkd-lower": (normalizers.Sequence([normalizers.NFKD(), normalizers.Lowercase()]), known["gpt4o-5"][1]),
        "nfkc": (normalizers.NFKC(), known["gpt4-2"][1]),
        "bert": (normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()),
        "whitespace": (None, pre_tokenizers.Whitespace()),
        "mark": (None, mark(prepend_scheme="always")),
        "mark-first": (normalizers.NFKC(), mark(prepend_scheme="first")),
        "mark-words": (None, pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), mark()])),
        "mark-unsplit": (None, mark(prepend_scheme="first", split=False)),
        "front": (normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]), None),
        "replace": (normalizers.Replace(" ", "▁"), pre_tokenizers.Split(" ", "merged_with_previous")),
    }


PIPELINES = list(_cutters())


@cache
def described(name: str) -> str:
    """The tokenizer.json of a pipeline; those that do not split are trained as if they did."""
    normalizer, cutter = _cutters()[name]
    library = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    trains = pre_tokenizers.Metaspace() if name in ("front", "replace", "mark-unsplit") else cutter
    library.normalizer = None if trains is not cutter else normalizer  # pyright: ignore[reportAttributeAccessIssue]
    library.pre_tokenizer = trains
    alphabet = pre_tokenizers.ByteLevel.alphabet() if "ByteLevel" in str(cutter) else []
    trainer = trainers.BpeTrainer(
        vocab_size=600, initial_alphabet=alphabet, special_tokens=["<unk>"], show_progress=False
    )
    library.train_from_iterator(CORPUS, trainer)
    library.normalizer, library.pre_tokenizer = normalizer, cutter  # pyright: ignore[reportAttributeAccessIssue]
    library.add_special_tokens([*SPECIAL, *([SPACES] if normalizer is None else [])])
    return library.to_str()


@cache
def encoder(name: str) -> LibraryEncoder:
    return from_description(described(name), f"{name}.json")


@cache
def ranks() -> str:
    """A file of ranks: the vocabulary of a byte-level pipeline, as `.tiktoken` files have it."""
    signs = {sign: i for i, sign in enumerate(_signs())}
    vocabulary = json.loads(described("level"))["model"]["vocab"]
    tokens = [bytes(signs[sign] for sign in token) for token in vocabulary if token != "<unk>"]
    ordered = [*(bytes([byte]) for byte in range(256)), *(token for token in tokens if len(token) > 1)]
    return "".join(f"{base64.b64encode(token).decode()} {rank}\n" for rank, token in enumerate(ordered))


def _signs() -> list[str]:
    """GPT-2's visible sign for each byte."""
    visible = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    hidden = [byte for byte in range(256) if byte not in visible]
    return [chr(byte) if byte in visible else chr(256 + hidden.index(byte)) for byte in range(256)]
