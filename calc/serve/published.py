"""In which format a model's own checkpoint is, where that is not the one that is served."""

from __future__ import annotations

from collections.abc import Sequence

from calc.serve.formats import formats, served_format
from calc.spec import ModelSpec
from calc.spec.shipped import Shipped


def unlike_checkpoint(spec: ModelSpec, dtypes: Sequence[str]) -> str | None:
    """What to say of a model whose packed checkpoint is in none of the formats that were asked for; None where it is
    in one, is not packed, or GGUF is asked for, which is made of any.

    Errors: Refused for formats that are not known.
    """
    if spec.shipped is None or any(served_format(name).gguf for name in dtypes):
        return None
    own = published_format(spec.shipped)
    if own in dtypes:
        return None
    packed = " and ".join(dict.fromkeys(rule.packed.name for rule in spec.shipped.rules))
    method = f" ({spec.shipped.method})" if spec.shipped.method != packed else ""
    way = f"it is --dtype {own} here" if own else "--dtype has no name for it"
    return f"its checkpoint is in {packed}{method}, and not in {' or '.join(dtypes)} as asked: {way}"


def published_format(shipped: Shipped) -> str | None:
    """What `--dtype` calls a checkpoint's format; None where it has no name for it."""
    packed = shipped.rules[0].packed
    if any(rule.packed != packed for rule in shipped.rules):
        return None
    if packed.word == 32 and packed.name in ("int4", "int8") and packed.block_columns:
        experts = shipped.reach == "experts" or any("self_attn" in name for name in shipped.skips)
        return f"{packed.name}:g{packed.block_columns}" + ":experts" * experts
    plain = packed.name in ("fp8", "nvfp4", "mxfp4") or (packed.name == "int8" and packed.word == 8)
    return packed.name if plain and packed.name in formats() else None
