"""A checkpoint against a description: bytes where it is packed, elements where it is not."""

from __future__ import annotations

from typing import NamedTuple

from calc.checkpoint.holdings import Holdings
from calc.errors import Refused
from calc.quantities.parameters import parameters
from calc.quantities.shipped import shipped_bytes
from calc.spec import ModelSpec


class Compared(NamedTuple):
    """unit: `bytes` or `elements`, which are compared."""

    unit: str
    described: int
    found: int

    @property
    def difference(self) -> int:
        return self.found - self.described


def compare(spec: ModelSpec, held: Holdings) -> Compared:
    """What `held` has beside what `spec` describes. GGUF says how many elements a packed matrix stands for; of
    safetensors' packed words only their bytes are known. Errors: Refused for a packed checkpoint of which the model's
    config does not say how."""
    if held.kind == "gguf" or spec.shipped is None:
        words = {"u8", "i32", "f8_e4m3", "f8_e5m2", "i8", "u32", "f4"} & set(held.by_form)
        if held.kind != "gguf" and words:
            expected = "one, since the files hold packed matrices"
            raise Refused("quantization_config", expected, f"none, beside {', '.join(sorted(words))}")
        return Compared("elements", sum(parameters(spec).values()), held.elements)
    return Compared("bytes", sum(shipped_bytes(spec).values()), held.size)
