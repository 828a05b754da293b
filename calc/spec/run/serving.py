"""How a model is served."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PlainValidator

from calc.spec.run.node import MaybePositive, RunNode, Word

Logits = Literal["last", "all"]
LOGITS = ("last", "all")


def engine_names() -> list[str]:
    """The names of the engines whose rules of allocation are known."""
    from calc.spec.run.engines import allocating_names  # most runs name none

    return allocating_names()


class Serving(RunNode):
    """By whose rules the cache is allocated, and what runs in one pass.

    engine: None: the cache takes the bytes of its elements. batched_tokens: of prompts in one pass; None: all of them,
    or with an engine what it sets.
    """

    engine: Annotated[str | None, PlainValidator(Word(engine_names, open=True))] = Field(
        default=None, description="Inference: whose rules allocate the cache."
    )
    batched_tokens: MaybePositive = Field(default=None, description="Inference: tokens of prompts in one pass.")
    logits: Annotated[Logits, PlainValidator(Word(lambda: LOGITS))] = Field(
        default="last", description="Inference: positions of a prompt with logits."
    )
