"""RWKV-4: a mean of all values so far that fades channel by channel."""

from __future__ import annotations

from typing import ClassVar, Literal

from calc.spec.fields import Dim, Node


class Rwkv4(Node):
    """Time mixing of RWKV-4 (Peng et al. 2023, arXiv:2305.13048, section 3.1): values weighed by exponentials of keys,
    which fade from token to token, over the sum of the weights, and scaled by the sigmoid of a receptance.

    d_inner: channels of keys, values and receptances; None means d_model.
    """

    symbols: ClassVar[dict[str, str]] = {"d_inner": "d_wkv"}
    kind: Literal["rwkv4"] = "rwkv4"
    d_inner: Dim | None = None
