"""Time of what linear-time mixers run: short causal convolutions, and the gated delta rule in chunks or token by token.

Gated delta nets (arXiv:2412.06464) keep a state [d_key, d_value] a head; a prompt goes through it chunk by chunk, each
of which waits for the one before it, and one new token reads and writes the state once. Mamba-2 (arXiv:2405.21060) has
the same convolution in front.
"""

from __future__ import annotations

from typing import Any, ClassVar

from calc.time.models.questions import Shape, answer
from calc.time.models.roofline import Roofline, Work

CHUNK = 64
"""Tokens that the chunked kernels of gated delta nets take at once."""


class _Scan(Roofline):
    typical: ClassVar[dict[str, float]] = Roofline.typical | {"launch": 1.0}

    def seconds(self, batch: Any, seq: Any, heads: Any, key_heads: Any, d_key: Any = 128, d_value: Any = 128) -> Any:
        """Seconds of one layer; ints give a float, float64 arrays (or a mix) an array.

        batch: sequences of `seq` new tokens. heads: of values; key_heads: of queries and of keys (groups of B and C in
        Mamba-2). d_key, d_value: their widths.
        """
        return answer(self, batch=batch, seq=seq, heads=heads, key_heads=key_heads, d_key=d_key, d_value=d_value)


def _features(shape: Shape) -> dict[str, Any]:
    import numpy as np

    return {
        "batch": np.log2(shape["batch"]),
        "seq": np.log2(shape["seq"]),
        "tokens": np.log2(shape["batch"] * shape["seq"]),
        "heads": np.log2(shape["heads"]),
        "key_heads": np.log2(shape["key_heads"]),
        "d_key": np.log2(shape["d_key"]),
    }


class ConvolutionModel(_Scan):
    """The short convolution over queries, keys and values: it reads and writes its channels once."""

    def work(self, shape: Shape) -> Work:
        """Bytes alone: four products an element are nothing beside them."""
        import numpy as np

        channels = 2 * shape["key_heads"] * shape["d_key"] + shape["heads"] * shape["d_value"]
        nbytes = 2 * shape["batch"] * shape["seq"] * channels * self.limits.itemsize
        nothing = np.zeros_like(nbytes)
        return Work(nothing, nbytes, np.ceil(shape["seq"] / CHUNK), nothing, _features(shape))


class DeltaRuleModel(_Scan):
    """The delta rule: products of a chunk with itself and with the state, and the state kept in fp32."""

    def work(self, shape: Shape) -> Work:
        """Products within chunks and with the state, operands once, the state once a sequence."""
        import numpy as np

        tokens = shape["batch"] * shape["seq"]
        state = shape["batch"] * shape["heads"] * shape["d_key"] * shape["d_value"]
        within = np.minimum(shape["seq"], CHUNK)
        widths = shape["d_key"] + shape["d_value"]
        products = 6 * shape["d_key"] * shape["d_value"] + 4 * within * widths
        operands = tokens * (2 * shape["key_heads"] * shape["d_key"] + 2 * shape["heads"] * shape["d_value"])
        nbytes = operands * self.limits.itemsize + 2 * state * 4.0
        flops = tokens * shape["heads"] * products
        return Work(flops, nbytes, np.ceil(shape["seq"] / CHUNK), np.zeros_like(flops), _features(shape))
