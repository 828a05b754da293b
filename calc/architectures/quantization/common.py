"""What the readers of `quantization_config` share."""

from __future__ import annotations

from typing import Any

from calc.architectures.config import Config
from calc.errors import Refused
from calc.spec.shipped import Packed, Rule, Shipped


def whole(
    cfg: Config, method: str, packed: Packed, rest: int, *, key: str = "modules_to_not_convert", head: bool = False
) -> Shipped:
    """One format for all matrices but those that the list `key` names. head: whether the head is among them where there
    is no list, or one without it."""
    skips = names(cfg, key)
    return Shipped.model_validate(
        {"method": method, "rules": (Rule(packed=packed),), "skips": skips, "rest": rest}
        | ({"reach": "head"} if head or (skips and "lm_head" not in skips and cfg.raw.get(key) is not None) else {})
    )


def names(cfg: Config, *keys: str) -> tuple[str, ...]:
    """The patterns of the first list that is there; none where it is absent or null."""
    for key in keys:
        given: Any = cfg.raw.get(key)
        if given is None:
            continue
        if not isinstance(given, list) or len(given) > 10_000 or not all(isinstance(one, str) for one in given):
            raise Refused(cfg.where + key, "a list of modules' names", given)
        return tuple(given)
    return ()


def group(cfg: Config, *keys: str, absent: Any) -> int | None:
    """Elements of a row that share a scale; None for the whole row, which -1 says too."""
    for key in keys:
        if cfg.raw.get(key) == -1:
            return None
    return cfg.size(*keys, absent=absent, null=None)


def bits(cfg: Config, key: str, *allowed: int, absent: Any) -> int:
    """The width of an element. Errors: Refused for one that the method does not have."""
    width = cfg.size(key, absent=absent)
    if width not in allowed:
        raise Refused(cfg.where + key, f"one of {', '.join(map(str, allowed))}", width)
    return width
