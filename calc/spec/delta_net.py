"""The gated delta net of Qwen3-Next and Qwen3.5."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import model_validator

from calc.errors import Refused
from calc.spec.fields import Dim, Node
from calc.spec.norm import Norm


class DeltaNet(Node):
    """Gated delta rule (Yang et al. 2024, arXiv:2412.06464): linear attention that forgets and overwrites its state.

    n_key_heads, d_key: heads of queries and keys, each shared by n_value_heads / n_key_heads heads of values.
    n_value_heads, d_value: heads of values; the state of each is d_key * d_value. d_conv: taps of the causal
    convolution over queries, keys and values. chunk: tokens that are worked off as one product.
    fused: queries, keys, values and gate are one matrix, and the two scalars of each head another (Qwen3-Next); else
    the gate and both scalars have matrices of their own (Qwen3.5). norm: on each value head, before its gate.
    double_rate: learning rates lie between 0 and 2, so that what is overwritten may turn its sign (OLMo Hybrid;
    Grazzi et al. 2024, arXiv:2411.12537). gate: what that passes (Qwen4 may take a sigmoid).
    """

    kind: Literal["delta_net"] = "delta_net"
    n_key_heads: Dim
    n_value_heads: Dim
    d_key: Dim
    d_value: Dim
    d_conv: Dim = 4
    chunk: Dim = 64
    fused: bool = False
    norm: Norm = Norm()
    double_rate: bool = False
    gate: Literal["silu", "sigmoid"] = "silu"

    @model_validator(mode="after")
    def _shared_keys(self) -> Self:
        if self.n_value_heads % self.n_key_heads:
            raise Refused("n_value_heads", f"a multiple of n_key_heads = {self.n_key_heads}", self.n_value_heads)
        return self
