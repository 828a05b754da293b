"""Heads: what reads the last vectors of a stack."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from calc.errors import Refused
from calc.sizes import Size
from calc.spec.channels import Activation
from calc.spec.fields import Dim, Node
from calc.spec.norm import Norm


class Head(Node):
    """The projection to the vocabulary. tied: it shares the token embedding's table (Press & Wolf 2017).

    n_logits: rows of its table; None means vocab_size (ImageGPT: one less, since nothing predicts the start token).
    own_width: its table is as wide as the stack, of which nothing stands ahead of it, whatever the token table's width
    (Qwen2.5-Omni's talker).
    transform: a dense layer of the table's width, `activation` and this norm come first (BERT's masked-token head).
    wide_loss: the loss is computed in fp32 whatever the logits are in (in transformers not that of masked tokens, nor
    that of encoder-decoders).
    transform_bias: whether that layer has one (ModernBERT's has none).
    scale: what the logits are multiplied with (Granite, Command R). softcap: then they pass c * tanh(x / c) (Gemma 2).
    """

    tied: bool = False
    bias: bool = False
    n_logits: Dim | None = None
    own_width: bool = False
    transform: Norm | None = None
    transform_bias: bool = True
    activation: Activation = "gelu"
    scale: float = 1.0
    softcap: float | None = Field(default=None, gt=0)
    wide_loss: bool = True

    @model_validator(mode="after")
    def _own_rows(self) -> Self:
        if self.tied and self.n_logits is not None:
            raise Refused("n_logits", "vocab_size, which is what a tied table has (leave it out)", self.n_logits)
        if self.own_width and (self.tied or self.transform is not None):
            raise Refused("own_width", "false for a head that is tied, or has a layer of its own", True)
        return self

    def columns(self, vocab_size: Size) -> Size:
        """Logits of one token."""
        return vocab_size if self.n_logits is None else self.n_logits


class Projection(Node):
    """A dense layer behind a stack: a pooler, a classifier, a span head, a projector to another stack.

    d_in, d_out: None means the stack's d_model. per: whether it runs on every token, on those of
    a text ahead of its picture (`text`), or once a sequence.
    pool: what of a sequence it then reads: one token, the mean or the most of all, or the mean of the first two. merge:
    how many neighbouring tokens are laid side by side first (a vision merger's 2 x 2 is 4): it reads merge * d_in from
    1 / merge as many tokens. norm: a norm of d_out values on the result.
    before, activation_before: a norm of d_in values, and an activation, on each token before they are merged.
    idle: no pass runs it (ESM's prediction of contacts). unread: it runs and nothing reads what it gives, so that no
    gradient reaches it (the pooler of TrOCR's encoder).
    every: it runs on one of so many tokens, the one numbered `offset` (a trajectory's step has three). reads: the
    projection before it whose result it takes; None: the stack's own.
    """

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    d_in: Dim | None = None
    d_out: Dim | None = None
    bias: bool = True
    per: Literal["token", "text", "sequence"] = "token"
    pool: Literal["first", "second", "last", "mean", "max", "first-two"] = "first"
    merge: int = Field(default=1, gt=0, le=4096)
    norm: Norm | None = None
    before: Norm | None = None
    activation_before: Activation | None = None
    every: int = Field(default=1, gt=0, le=4096)
    offset: int = Field(default=0, ge=0, le=4096)
    reads: str | None = None
    idle: bool = False
    unread: bool = False
    activation: Activation | None = None

    @model_validator(mode="after")
    def _once(self) -> Self:
        for name in ("merge", "every") if self.per != "token" else ():
            if getattr(self, name) != 1:
                raise Refused(
                    name, "1 for a layer that runs on the text alone, or once a sequence", getattr(self, name)
                )
        if self.offset >= self.every:
            raise Refused("offset", f"less than every = {self.every}", self.offset)
        return self

    def group(self, outer: str) -> str:
        """Its own name, with its tower's before it: heads differ in width."""
        return f"{outer}_{self.name}" if outer else self.name
