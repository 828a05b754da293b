"""What a larger vocabulary buys and costs: bytes a token against the parameters and FLOPs of table and head."""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calc.blocks.build import build
from calc.errors import Refused
from calc.quantities.flops import forward
from calc.quantities.parameters import parameters
from calc.sizes import quotient
from calc.spec import ModelSpec
from calc.spec.load import Load
from calc.spec.resizing import with_sizes
from calc.tokens.boundaries import OPEN
from calc.tokens.encoders import PIP, from_description
from calc.tokens.patterns import of_ranks
from calc.tokens.streaming import batches, open_text
from calc.trace.part import leaves

SAMPLE = 16 * 2**20
"""Bytes that are read of all files together, an equal share of each from its beginning."""
_HELD_OUT = 10
"""Every tenth part of the sample is not trained on; bytes a token are its."""
_LEAST = 512


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """One size, and what a model with it has.

    bytes_per_token: on text that was not trained on. params: of the model; vocab_params: of its token table and head.
    flops: of a forward pass, a token; head_flops: the head's of them; flops_per_byte: flops / bytes_per_token.
    """

    vocab_size: int
    bytes_per_token: float
    params: int
    vocab_params: int
    flops: float
    head_flops: float

    @property
    def flops_per_byte(self) -> float:
        return self.flops / self.bytes_per_token


def read_sample(paths: Sequence[str]) -> list[str]:
    """Texts of about SAMPLE bytes in all. Errors: Refused as `streaming`, and for less than 40 kB of text."""
    texts: list[str] = []
    for path in paths:
        file, _ = open_text(Path(path))
        with file, closing(_parts(file, path)) as parts:
            left = SAMPLE // len(paths)
            for text in parts:
                texts.append(text)
                left -= len(text.encode())
                if left <= 0:
                    break
    if len(texts) < _HELD_OUT:
        raise Refused("--train-vocab", "at least 40 kB of text to train on", f"{sum(map(len, texts)):,} characters")
    return texts


def _parts(file: Any, path: str) -> Generator[str]:
    for batch in batches(file, path, OPEN):
        yield from batch.texts


def trade(
    texts: Sequence[str], vocab_size: int, spec: ModelSpec, seq: int, pattern: str = "gpt4", *, bars: bool = False
) -> list[Vocabulary]:
    """Vocabularies of `vocab_size`, half of it, and so on, down to 512, in a model with each.

    They are trained once: the first merges of a large vocabulary are those of a small one. seq: tokens of a sequence,
    whose FLOPs are counted for each token. bars: let the library show its progress on stderr.
    Errors: Refused below 512, for a sample that yields fewer tokens, and without the extra `tokens`.
    """
    if vocab_size < _LEAST:
        raise Refused("--train-vocab", f"at least {_LEAST} tokens", vocab_size)
    held = [text for i, text in enumerate(texts) if i % _HELD_OUT == _HELD_OUT - 1]
    rest = [text for i, text in enumerate(texts) if i % _HELD_OUT < _HELD_OUT - 1]
    description = _trained(rest, vocab_size, pattern, bars)
    found = len(description["model"]["vocab"])
    if found < vocab_size:
        raise Refused("--train-vocab", f"at most {found:,} tokens, all that this sample yields", vocab_size)
    n_bytes = sum(len(text.encode()) for text in held)
    rows: list[Vocabulary] = []
    while vocab_size >= _LEAST:
        encoder = from_description(json.dumps(first_merges(description, vocab_size)), f"{vocab_size} tokens")
        sized = with_sizes(spec, {"vocab_size": vocab_size})
        rows.append(_row(sized, vocab_size, n_bytes / sum(encoder.count(held)), seq))
        vocab_size //= 2
    return rows


def first_merges(description: dict[str, Any], vocab_size: int) -> dict[str, Any]:
    """A trained byte-level tokenizer.json as it was when it had `vocab_size` tokens."""
    model = description["model"]
    vocab = {token: i for token, i in model["vocab"].items() if i < vocab_size}
    # Two merges may spell the same token, so the merges that were learned by then are not counted but met.
    made = [vocab.get("".join(pair)) for pair in model["merges"]]
    n_merges = made.index(None) if None in made else len(made)
    return description | {"model": model | {"vocab": vocab, "merges": model["merges"][:n_merges]}}


def _row(spec: ModelSpec, vocab_size: int, bytes_per_token: float, seq: int) -> Vocabulary:
    components = parameters(spec)
    load = Load(1, seq)
    head = sum(
        leaf.op.flops * leaf.calls
        for leaf in leaves(build(spec, load))
        if leaf.op.kind == "linear" and (leaf.component or leaf.op.component) == "lm_head"
    )
    return Vocabulary(
        vocab_size,
        bytes_per_token,
        sum(components.values()),
        components.get("embedding", 0) + components.get("lm_head", 0),
        quotient(forward(spec, load).total, seq),
        quotient(head, seq),
    )


def _trained(texts: Sequence[str], vocab_size: int, pattern: str, bars: bool) -> dict[str, Any]:
    """The tokenizer.json that the library trains."""
    try:
        from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers
    except ModuleNotFoundError as error:
        raise Refused("--train-vocab", f"the extra tokens: {PIP}", f"no module {error.name}") from None
    library: Any = Tokenizer(models.BPE())
    cut = pre_tokenizers.Split(Regex(of_ranks("", pattern)), "isolated")
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    library.pre_tokenizer = pre_tokenizers.Sequence([cut, level])
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, initial_alphabet=alphabet, show_progress=bars)
    library.train_from_iterator(texts, trainer)
    return json.loads(library.to_str())
