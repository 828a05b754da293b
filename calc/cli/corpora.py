"""The options of a corpus in bytes or words, for commands that count in tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from calc.errors import Refused
from calc.output.progress import Progress
from calc.reading.numbers import Number
from calc.tokens.corpus import Corpus, corpus
from calc.units import si

F = TypeVar("F", bound=Callable[..., Any])
_NAMES = ("corpus", "bytes_per_token", "tokens_per_word", "tokenizer", "sample")
_OPTIONS = (
    click.option("--corpus", metavar="SIZE", help='The data there is, "4.5 TB" or "300e9 words", in place of tokens.'),
    click.option("--bytes-per-token", type=Number(above=0), help="With --corpus in bytes; `tokens FILE` measures it."),
    click.option("--tokens-per-word", type=Number(above=0), help="With --corpus in words; `tokens FILE` measures it."),
    click.option(
        "--tokenizer", metavar="FILE", help="With --corpus: measure that with this tokenizer.json or .tiktoken"
    ),
    click.option("--sample", metavar="FILE", help="With --tokenizer: the text, like the corpus, to measure it on."),
)


def options(function: F) -> F:
    """`--corpus` and what makes tokens of it; `read` takes them out of what the command gets."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def read(words: dict[str, Any]) -> Corpus | None:
    """The corpus that is asked for, its options taken out of `words`; None where there is none.

    Errors: as `corpus`, and Refused for its options without it and beside --unique-tokens.
    """
    given = {name: words.pop(name) for name in _NAMES}
    size = given.pop("corpus")
    if size is None:
        alone = next((name for name, value in given.items() if value is not None), None)
        if alone is not None:
            raise Refused(f"--{alone.replace('_', '-')}", "--corpus beside it", given[alone])
        return None
    if words.get("unique_tokens") is not None:
        raise Refused("--unique-tokens", "it or --corpus, which says the same", "both")
    progress = Progress()
    try:
        return corpus(size, **given, progress=lambda path, *done: progress(f"bytes of {path}", *done))
    finally:
        progress.close()


def record(found: Corpus, tokens: float) -> dict[str, Any]:
    """A corpus in JSON, beside so many tokens of training."""
    return {"corpus_tokens": found.tokens, "corpus": found.in_words, "corpus_epochs": found.epochs(tokens)}


def word(found: Corpus, tokens: float) -> tuple[str, str]:
    """The same as a row of words."""
    return (
        "corpus",
        f"{si(found.tokens)} unique tokens ({found.in_words}); this is {found.epochs(tokens):.3g} epochs of them",
    )
