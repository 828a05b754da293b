"""Keys of a config that no importer has asked for, and what they may mean all the same."""

from __future__ import annotations

from calc.architectures.aliases import SAME_THING
from calc.architectures.config import Config
from calc.errors import Refused, show
from calc.spec import ModelSpec

CACHE_KEYS = ("layer_types", "sliding_window", "attention_chunk_size")
"""What the cache of transformers reads of a config, in this order, whatever the model does."""


def refuse_unread(cfg: Config) -> None:
    """Refuse a key that nothing read and that means one which was looked for in vain: it is one letter off, or what
    another family calls the same, unless it says what the default does.

    A name of another family beside this family's own, of another value, is noted: transformers does not read it.
    """
    for key in sorted(cfg.raw.keys() - cfg.read_keys):
        for name in sorted(cfg.absent):
            if not key.startswith("_") and _one_slip(key, name):
                raise Refused(cfg.where + key, f"{name}, which is absent", "a key that nothing reads")
        for name in sorted({name for names in SAME_THING if key in names for name in names} & cfg.read_keys):
            _foreign(cfg, key, name)
    for section in cfg.sections:
        refuse_unread(section)


def refuse_window(cfg: Config, spec: ModelSpec) -> None:
    """Refuse a window that nothing read, which the cache of transformers obeys all the same, and a window of the token
    itself alone, with which it drops nothing. It reads the language model's section where there is one."""
    if any(getattr(group.mixer, "window", None) == 1 for group in spec.layers):
        raise Refused("sliding_window", "2 tokens or more (transformers' cache keeps all where it is 1)", 1)
    why = "no layer of this family has a window, though transformers' cache would obey it"
    for each in language_models(cfg) or [cfg]:
        given = {key: each.raw[key] for key in CACHE_KEYS if each.raw.get(key) is not None}
        # The first of them is what the cache obeys.
        key = next(iter(given), None)
        if key is None or key in each.read_keys:
            continue
        if key != "layer_types" or not isinstance(given[key], list) or any(w != "full_attention" for w in given[key]):
            raise Refused(each.where + key, f"null ({why})", show(given[key]))


def language_models(cfg: Config) -> list[Config]:
    """The sections of a config, and of those sections, that describe a language model."""
    return [
        found
        for section in cfg.sections
        for found in ([section] if section.where.endswith("text_config.") else language_models(section))
    ]


def _foreign(cfg: Config, key: str, name: str) -> None:
    """`key`, which nothing read, is what another family calls `name`, which something asked for."""
    value = cfg.raw[key]
    if name in cfg.absent and value is not None and value != cfg.absent[name]:
        raise Refused(cfg.where + key, f"{name}, as this family's class calls it", "a name that it does not know")
    if name in cfg.raw and cfg.raw[name] != value:
        cfg.notes.append(f"{cfg.where}{key} is ignored: this family's class reads {name}")


def _one_slip(a: str, b: str) -> bool:
    """Whether two words differ by one letter changed, left out or put in."""
    if abs(len(a) - len(b)) > 1 or min(len(a), len(b)) < 4:
        return False
    same = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    return a[same + 1 :] == b[same + 1 :] or a[same:] == b[same + 1 :] or a[same + 1 :] == b[same:]
