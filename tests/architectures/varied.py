"""Small configs of every family, and the same with keys varied at random: absent, null, odd but legal, misplaced."""

from __future__ import annotations

import copy
import dataclasses
import random
from typing import Any

import transformers

from calc.architectures.aliases import SAME_THING
from tests.architectures.cases import BASES, VARIANTS
from tests.architectures.cases_bytes import BYTES
from tests.architectures.cases_dense import DENSE
from tests.architectures.cases_hearing import HEARING
from tests.architectures.cases_latent import LATENT_CASES
from tests.architectures.cases_media import MEDIA
from tests.architectures.cases_recent import RECENT
from tests.architectures.cases_recurrent import RECURRENT
from tests.architectures.cases_text import TEXT
from tests.architectures.cases_vision import ALONE, SEEING


def _of_class(config: dict[str, Any], name: str) -> dict[str, Any]:
    return config | {"architectures": [name]}


CONFIGS: dict[str, list[dict[str, Any]]] = {
    **{family: [base, *(base | more for more in VARIANTS.get(family, ()))] for family, base in BASES.items()},
    **{
        family: list(cases)
        for each in (DENSE, LATENT_CASES, RECENT, RECURRENT, SEEING, ALONE, HEARING, BYTES)
        for family, cases in each.items()
    },
    **{
        family: [*(_of_class(base, name) for name in names), *(_of_class(base | more, names[0]) for more in variants)]
        for each in (TEXT, MEDIA)
        for family, (base, names, variants) in each.items()
    },
}
"""Family -> configs without `model_type`."""

FOREIGN = sorted({name for names in SAME_THING for name in names} | {"sliding_window", "attention_chunk_size"})
SECTIONS = ("text_config", "vision_config", "audio_config", "prompt_encoder_config", "mask_decoder_config")
# What these say belongs to other tests, or to no count.
UNVARIED = {
    *("model_type", "architectures", "dtype", "torch_dtype", "transformers_version", "problem_type", "label2id"),
    *(
        "pad_token_id",
        "bos_token_id",
        "eos_token_id",
        "decoder_start_token_id",
        "is_encoder_decoder",
        "rope_parameters",
    ),
    *SECTIONS,
}


def vary(model_type: str, config: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """The config with one to three keys of it or of a section changed."""
    raw: dict[str, Any] = {"model_type": model_type, **copy.deepcopy(config)}
    known = transformers.CONFIG_MAPPING[model_type]
    for _ in range(rng.choice((1, 1, 2, 3))):
        section = rng.choice([None, *(name for name in SECTIONS if isinstance(raw.get(name), dict))])
        place = raw if section is None else raw[section]
        cls: Any = known if section is None else getattr(known, "sub_configs")[section]  # noqa: B009
        _change(place, cls, rng)
    return raw


def _change(place: dict[str, Any], cls: Any, rng: random.Random) -> None:
    fields = {f.name for f in dataclasses.fields(cls)} if dataclasses.is_dataclass(cls) else set()
    keys = sorted((fields | set(place)) - UNVARIED)
    key = rng.choice(keys)
    match rng.choice(("drop", "null", "other", "other", "rename", "foreign")):
        case "drop":
            place.pop(key, None)
        case "null":
            place[key] = None
        case "other":
            place[key] = _other(place.get(key, getattr(cls, key, None)), rng)
        case "rename":
            named = [(own, other) for names in SAME_THING for own in names & set(place) for other in names - set(place)]
            if named:
                own, other = rng.choice(sorted(named))
                place[other] = place.pop(own)
        case "foreign":
            place.setdefault(rng.choice(FOREIGN), rng.choice((2, 3, 4, 8)))


def _other(value: Any, rng: random.Random) -> Any:
    """Something of the same kind that a config might hold."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return rng.choice((1, 2, 3, 4, 6, 8, 12, 16, 24, 2 * value if value < 200 else 96))
    if isinstance(value, float):
        return rng.choice((0.5, 1.0, value))
    if isinstance(value, list) and value:
        return rng.choice((value[:-1], value[::-1], [*value, value[-1]]))
    return rng.choice((None, 2, 4, True, False)) if value is None else value
