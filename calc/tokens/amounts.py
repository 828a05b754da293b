"""Token budgets as they are written on the command line: `tokens:image=224x224,patch=16`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from calc.errors import Refused, did_you_mean
from calc.sizes import Size
from calc.tokens import budgets
from calc.units import parse_amount

PREFIX = "tokens:"


def _whole(text: str, field: str) -> int:
    if re.fullmatch(r"[1-9]\d{0,12}", text):
        return int(text)
    raise Refused(field, "a whole number above 0", text[:40])


def _some(text: str, field: str) -> int:
    return 0 if text == "0" else _whole(text, field)


def _number(text: str, field: str) -> Fraction:
    if re.fullmatch(r"\d{1,12}(\.\d{1,12})?", text) and Fraction(text) > 0:
        return Fraction(text)
    raise Refused(field, "a number above 0, such as 4.2", text[:40])


def _amount(text: str, field: str) -> int:
    """A number of bytes or words, which may have a prefix: "2M", "1.5e9"."""
    number = parse_amount(text, "tokens", field)
    if isinstance(number, int) and number > 0:
        return number
    raise Refused(field, "a whole number above 0, such as 2M", text[:40])


def _sides(n: int) -> Callable[[str, str], tuple[int, ...]]:
    def read(text: str, field: str) -> tuple[int, ...]:
        found = text.split("x")
        if len(found) != n:
            raise Refused(field, "x".join("FHW"[-n:]) + ", such as " + "x".join(["16", "224", "224"][-n:]), text[:40])
        return tuple(_whole(side, field) for side in found)

    return read


def _convolutions(text: str, field: str) -> tuple[tuple[int, ...], ...]:
    """KERNEL:STRIDE:PADDING for each convolution, joined by plus signs."""
    chain = tuple(tuple(_some(n, field) for n in each.split(":")) for each in text.split("+"))
    if all(len(each) == 3 and each[0] > 0 and each[1] > 0 for each in chain):
        return chain
    raise Refused(field, "KERNEL:STRIDE:PADDING of each convolution, such as 3:1:1+3:2:1", text[:40])


def _sound(seconds: Size, conv: Any = (), **spectrogram: Any) -> Size:
    return budgets.convolved(budgets.spectrogram_frames(seconds, **spectrogram), conv)


Reader = Callable[[str, str], Any]


@dataclass(frozen=True, slots=True)
class Budget:
    """A modality. read: its input. rule: its formula. needed, more: settings that must, and that may, be given."""

    read: Reader
    rule: Callable[..., Size]
    needed: Mapping[str, Reader]
    more: Mapping[str, Reader]
    example: str


BUDGETS: Mapping[str, Budget] = {
    "image": Budget(
        _sides(2), budgets.image_patches, {"patch": _whole}, {"stride": _whole, "special": _some},
        "image=224x224,patch=16,special=1",
    ),
    "pixels": Budget(_sides(2), budgets.pixels, {}, {}, "pixels=32x32"),
    "video": Budget(
        _sides(3), budgets.video_tubes, {"patch": _whole}, {"tube": _whole, "special": _some},
        "video=32x224x224,patch=16,tube=2",
    ),
    "sound": Budget(
        _number, _sound, {"rate": _whole, "hop": _whole}, {"window": _whole, "conv": _convolutions},
        "sound=30,rate=16000,hop=160,conv=3:1:1+3:2:1",
    ),
    "frames": Budget(
        _whole, lambda n, conv: budgets.convolved(n, conv), {"conv": _convolutions}, {}, "frames=3000,conv=3:1:1+3:2:1"
    ),
    "codec": Budget(
        _number, budgets.codec_tokens, {"rate": _number}, {"codebooks": _whole}, "codec=10,rate=75,codebooks=8"
    ),
    "vq": Budget(
        _sides(2), budgets.vq_tokens, {"downsample": _whole}, {"codebooks": _whole, "special": _some},
        "vq=256x256,downsample=8",
    ),
    "features": Budget(_whole, budgets.features, {}, {"special": _some}, "features=14"),
    "trajectory": Budget(_whole, budgets.trajectory, {}, {"vectors": _whole}, "trajectory=20"),
    "bytes": Budget(_amount, budgets.text_bytes, {"bytes_per_token": _number}, {}, "bytes=2M,bytes_per_token=4.2"),
    "words": Budget(_amount, budgets.text_words, {"tokens_per_word": _number}, {}, "words=1500,tokens_per_word=1.3"),
}  # fmt: skip
"""Modality -> how it is asked for."""


def parse_budget(text: str, field: str) -> int:
    """The tokens that `tokens:MODALITY=INPUT,SETTING=VALUE,…` comes to.

    Errors: Refused for an unknown modality or setting, one that is missing or there twice, for what does not read, and
    where not one token comes out.
    """
    first, *rest = text.removeprefix(PREFIX).split(",")
    name, equals, value = first.partition("=")
    if name not in BUDGETS or not equals:
        raise Refused(field, f"tokens:MODALITY=…, of {', '.join(BUDGETS)}{did_you_mean(name, BUDGETS)}", first[:40])
    budget = BUDGETS[name]
    takes = {**budget.needed, **budget.more}
    given: dict[str, Any] = {}
    for each in rest:
        setting, equals, amount = each.partition("=")
        if setting not in takes or not equals or setting in given:
            expected = f"{PREFIX}{budget.example}, with each of {', '.join(takes) or 'no settings'} at most once"
            raise Refused(field, expected, each[:40])
        given[setting] = takes[setting](amount, f"{field}: {setting}")
    missing = [setting for setting in budget.needed if setting not in given]
    if missing:
        raise Refused(field, f"{' and '.join(missing)}, as in {PREFIX}{budget.example}", "none")
    read = budget.read(value, f"{field}: {name}")
    tokens = budget.rule(*read, **given) if isinstance(read, tuple) else budget.rule(read, **given)
    if not 0 < tokens <= 2**40:
        raise Refused(field, "from 1 to 2^40 tokens", str(tokens))
    return int(tokens)
