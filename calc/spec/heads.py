"""Heads: what reads the last vectors of a stack."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from calc.spec.attention import Norm
from calc.spec.fields import Dim, Node


class Head(Node):
    """The projection to the vocabulary. tied: it shares the token embedding's table (Press & Wolf 2017)."""

    tied: bool = False
    bias: bool = False


class Projection(Node):
    """A dense layer behind a stack: a pooler, a masked-token transform, a classifier, a projector to another stack.

    d_in, d_out: None means the stack's d_model. per: whether it runs on every token or once a sequence (its first
    token, or their mean). merge: how many neighbouring tokens are laid side by side first (a vision merger's 2 x 2 is
    4): it reads merge * d_in from 1 / merge as many tokens. norm: a norm of d_out values on the result.
    before: a norm of d_in values on each token before they are merged.
    """

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    d_in: Dim | None = None
    d_out: Dim | None = None
    bias: bool = True
    per: Literal["token", "sequence"] = "token"
    merge: int = Field(default=1, gt=0, le=4096)
    norm: Norm | None = None
    before: Norm | None = None
