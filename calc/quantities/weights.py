"""Weight bytes: what the parameters take in one number format."""

from __future__ import annotations

from calc.dtypes import dtype as find_dtype
from calc.quantities.parameters import parameters
from calc.sizes import Size, ceil_div
from calc.spec import ModelSpec


def weight_bytes(spec: ModelSpec, dtype: str = "bf16") -> dict[str, Size]:
    """Bytes of all parameters by component, tied weights once, every tensor in `dtype`.

    int4 counts half a byte a parameter and no scales. An odd number of 4-bit elements takes a whole last byte.
    """
    bits = find_dtype(dtype).bits
    return {name: _bytes(elements, bits) for name, elements in parameters(spec).items()}


def _bytes(elements: Size, bits: int) -> Size:
    return elements * (bits // 8) if bits % 8 == 0 else ceil_div(elements * bits, 8)
