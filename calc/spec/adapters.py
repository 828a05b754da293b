"""Adapters: a few trained weights beside a model that stays as it is."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from calc.errors import Refused
from calc.spec.fields import Dim, Node

DEFAULT_TARGETS = ("q_proj", "v_proj")
"""The matrices that Hu et al. adapt in most experiments (section 4.2 and table 5)."""


class Lora(Node):
    """Low-rank updates: W x + scale * B A x, A [rank, d_in], B [d_out, rank] (Hu et al. 2021, arXiv:2106.09685).

    targets: the dense matrices of the layers that have one, by the last name of their path; the default is the paper's
    choice in section 4.2. They are found in the layers of the main stack and of the encoder, cross-attention and every
    expert included; a vision tower is left alone. alpha: scale = alpha / rank; None means a scale of 1.
    """

    symbols: ClassVar[dict[str, str]] = {"rank": "lora_rank"}
    kind: Literal["lora"] = "lora"
    rank: Dim
    targets: tuple[str, ...] = Field(default=DEFAULT_TARGETS, min_length=1)
    alpha: float | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _once(self) -> Self:
        if len(set(self.targets)) != len(self.targets):
            raise Refused("targets", "each matrix once", ", ".join(self.targets))
        return self


class Prefix(Node):
    """`length` keys and values a layer in front of those of the tokens (Li & Liang 2021, arXiv:2101.00190).

    Every token of the main stack attends to all of them, whatever its window; they are used as they are, without norms
    or rotary positions, and are weights, not cache. The network that the paper trains them through is dropped after
    training (section 4.3) and left out.
    """

    symbols: ClassVar[dict[str, str]] = {"length": "n_prefix"}
    kind: Literal["prefix"] = "prefix"
    length: Dim


class Prompt(Node):
    """`length` vectors in front of the embedded tokens (Lester et al. 2021, arXiv:2104.08691).

    All layers and the head work on them like on tokens, and their keys and values stay in the cache.
    """

    symbols: ClassVar[dict[str, str]] = {"length": "n_prompt"}
    kind: Literal["prompt"] = "prompt"
    length: Dim


class Bottleneck(Node):
    """h + up(gelu(down(h))) on the result h of every mixer and every channel mixer (Houlsby et al. 2019, figure 2).

    down [width, d_model] and up [d_model, width] have biases. They stand in the layers of the main stack and of the
    encoder. The paper (arXiv:1902.00751) trains the norms and the classifier too; here they stay frozen.
    """

    symbols: ClassVar[dict[str, str]] = {"width": "d_bottleneck"}
    kind: Literal["bottleneck"] = "bottleneck"
    width: Dim
