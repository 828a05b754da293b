"""Where a text may be cut so that the tokens of its parts are the tokens of the whole.

A part is safe to count alone where (1) the pre-tokenization has a boundary at the cut whatever stands around it, and
(2) what precedes the cut is pre-tokenized as if the text ended there, and (3) what follows as if it began there.
A pattern is matched from left to right and looks ahead, never behind, so (3) follows from (1). For the patterns of
data/tokens/patterns.toml both others hold

- behind a letter or digit and ahead of a space, comma, quotation mark, or "，" or "。": no alternative goes on from a
  letter or digit to any of these, and the only lookahead, of whitespace for what is not, ends at the letter;
- behind one line break that follows something visible, ahead of a letter or digit: breaks stand at the end of what
  they are part of, and a single one is a piece of its own either way.

A normalizer may put a sign behind a letter (e + U+0301), and words of other tokenizers leave some digits out (⒈), so
there only the space is left of the first rule. Where text is cut by spaces, or not at all and no token of the
vocabulary goes on from a letter or digit to a space, that rule alone holds: merging never joins what no token spans;
and ahead of a letter or digit behind that space, since nothing is put in front of what is empty or an added token.
Anything else is not known to be safe.
tests/tokens/test_boundaries.py draws texts against all this.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from calc.tokens.patterns import patterns

_OPEN = re.compile(r'(?<=[^\W_])(?=[ ,"，。])|(?<=\S\n)(?=[^\W_])')
_NORMALIZED = re.compile(r"(?<=[^\W_])(?= )|(?<=\S\n)(?=[^\W_])")
_SPACES = re.compile(r"(?<=[^\W_])(?= [^\W_])")
_MARK = "▁"
_KEEPING = {"NFC", "NFD", "NFKC", "NFKD", "Lowercase"}
_REMOVING = {"StripAccents", "BertNormalizer"}
_WORDS = ["BertPreTokenizer"], ["Whitespace"]
_MARKED_WORDS = ["Metaspace"], ["WhitespaceSplit", "Metaspace"]


class Cuts(NamedTuple):
    """Where a text may be cut. drops_space: a later part is encoded without its first space, which comes back as the
    mark that is put in front of every text."""

    at: re.Pattern[str]
    drops_space: bool = False


OPEN = Cuts(_OPEN)
"""The cuts of the patterns of data/tokens."""


def cuts_of(description: Mapping[str, Any]) -> Cuts | None:
    """The cuts that are safe for a tokenizer.json; None where none are known to be."""
    normalizers = _flat(description.get("normalizer"), "normalizers")
    steps = _flat(description.get("pre_tokenizer"), "pretokenizers")
    model = description.get("model") or {}
    kinds = {each["type"] for each in normalizers}
    if kinds and kinds <= {"Replace", "Prepend"}:
        cuts = _marked(normalizers, steps, model)
    elif kinds <= _KEEPING | _REMOVING:
        cuts = _cuts(steps, model, plain=not kinds, whole=not kinds & _REMOVING)
    else:
        cuts = None
    added = description.get("added_tokens") or []
    if cuts is None or not all(_whole(each, cuts, normalized=bool(kinds)) for each in added):
        return None
    return cuts


def _flat(step: Any, key: str) -> list[Mapping[str, Any]]:
    """A step, or a sequence of them, as a list."""
    if step is None:
        return []
    return [each for inner in step[key] for each in _flat(inner, key)] if step["type"] == "Sequence" else [step]


def _marked(
    normalizers: list[Mapping[str, Any]], steps: list[Mapping[str, Any]], model: Mapping[str, Any]
) -> Cuts | None:
    """The cuts where a mark takes every space's place, and may be put in front, before anything else."""
    marks = [each for each in normalizers if each["type"] == "Replace"]
    fronts = [each for each in normalizers if each["type"] == "Prepend"]
    usual = [{"type": "Replace", "pattern": {"String": " "}, "content": _MARK}]
    # A split by spaces finds none any more.
    blind = all(step["type"] == "Split" and step["pattern"] == {"String": " "} for step in steps)
    if marks != usual or any(each["prepend"] != _MARK for each in fronts) or not blind or not _spans_no_mark(model):
        return None
    return Cuts(_SPACES, drops_space=bool(fronts))


def _cuts(steps: list[Mapping[str, Any]], model: Mapping[str, Any], *, plain: bool, whole: bool) -> Cuts | None:
    """The cuts of a pre-tokenization. plain: nothing is normalized before it. whole: nothing is taken away."""
    kinds = [step["type"] for step in steps]
    if kinds in _WORDS:
        return Cuts(_NORMALIZED)
    if kinds in _MARKED_WORDS and steps[-1]["replacement"] == _MARK:
        safe = steps[-1].get("split", True) or (plain and _spans_no_mark(model))
        return Cuts(_SPACES) if safe else None
    if not whole or not kinds or kinds[-1] != "ByteLevel":
        return None
    *before, level = steps
    if level.get("use_regex", True):
        known = all(step["type"] == "Digits" for step in before)
    else:
        known = any(tuple(map(_regex, before)) == each.splits for each in patterns())
    if level["add_prefix_space"]:
        return Cuts(_SPACES) if known and not before else None
    return (OPEN if plain else Cuts(_NORMALIZED)) if known else None


def _regex(step: Mapping[str, Any]) -> str | None:
    """The pattern of a split that keeps all that it meets as pieces, and what lies between."""
    isolated = (step.get("behavior"), step.get("invert")) in (("Isolated", False), ("Removed", True))
    return step["pattern"].get("Regex") if step["type"] == "Split" and isolated else None


def _spans_no_mark(model: Mapping[str, Any]) -> bool:
    """Whether a model's vocabulary has the mark, and no token that goes on from a letter or digit to one."""
    vocabulary: Iterable[Any] = model.get("vocab") or ()
    tokens = [entry if isinstance(entry, str) else entry[0] for entry in vocabulary]
    affixed = model.get("continuing_subword_prefix") or model.get("end_of_word_suffix")
    known = model.get("type") in ("BPE", "Unigram") and _MARK in tokens and not affixed
    return known and not any(re.search(f"[^\\W_]{_MARK}", token) for token in tokens)


def _whole(token: Mapping[str, Any], cuts: Cuts, *, normalized: bool) -> bool:
    """Whether no cut can fall into an added token, nor between it and the whitespace that it takes in.

    normalized: the text is, before such tokens are looked for, which may bring spaces of its own.
    """
    text = token["content"]
    inside = any(1 < match.start() <= len(text) for match in cuts.at.finditer(f"x{text}x"))
    ends = text[-1:].isalnum() or ((token.get("lstrip") or cuts.drops_space) and text[:1].isalnum())
    spaced = normalized and token.get("normalized") and any(map(str.isspace, text))
    return not (inside or ends or spaced)
