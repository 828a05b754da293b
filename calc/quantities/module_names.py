"""Hugging Face's names of the modules that hold our weights, and the patterns by which a config leaves some out."""

from __future__ import annotations

import re
from collections.abc import Iterable

from calc.errors import Refused

WORDS: dict[str, tuple[str, ...]] = {
    "attention": ("self_attn", "attn", "attention", "self_attention"),
    "cross_attention": ("encoder_attn", "cross_attn", "EncDecAttention"),
    "mlp": ("mlp", "feed_forward", "ffn", "block_sparse_moe"),
    "moe": ("mlp", "block_sparse_moe", "feed_forward", "ffn", "moe"),
    "router": ("gate", "router"),
    "shared_expert": ("shared_experts", "shared_expert", "shared_mlp"),
    "delta_net": ("linear_attn",),
    "kda": ("self_attn",),
    "mamba": ("mamba", "mixer"),
    "mamba2": ("mamba", "mixer"),
    "gated_convolution": ("conv",),
    "kv_a_proj": ("kv_a_proj_with_mqa", "kv_a_proj"),
    "gate_up_proj": ("gate_up_proj",),
    "vision": ("visual", "vision_tower", "vision_model", "vision_tower.vision_model", "model.visual"),
    "audio": ("audio_tower",),
}
"""A part of one of our paths -> what Hugging Face's models call it; every other part keeps its name."""
PREFIXES = ("", "model.", "language_model.model.", "model.language_model.", "language_model.", "transformer.")
PROJECTORS = ("multi_modal_projector", "mm_projector", "merger", "connector")
MAX_PATTERN, MAX_RUNS = 200, 4
_PIECE = re.compile(
    r"(?P<any>\.\*|\*)|(?P<digits>(?:\\d|\[0-9\])[+*]?)|(?P<group>\(\?:|\(|\)|\|)|(?P<edge>[\^$])"
    r"|(?P<literal>\\[.\-_/]|[A-Za-z0-9_\-./])"
)


def names_of(path: str, number: int | None) -> Iterable[str]:
    """What the module that holds our weight `path` may be called, `number` standing for its layer's.

    An expert is called `*`: configs name all of them or none.
    """
    parts = path.split(".")[:-1]
    inside = parts[0] in ("vision", "audio", "encoder")
    made = [""]
    for i, part in enumerate(parts):
        if part.startswith("{"):
            own: tuple[str, ...] = (str(number) if number is not None and parts[i - 1] == "layers" else "*",)
        else:
            own = WORDS.get(part, (part, *PROJECTORS) if inside and part == "projector" else (part,))
        made = [f"{before}.{word}" if before else word for before in made for word in own]
    for name in made:
        for prefix in ("",) if inside else PREFIXES:
            yield prefix + name


def compiled(patterns: tuple[str, ...]) -> re.Pattern[str] | None:
    """One expression that finds a name which some pattern names: from its start or as its end, up to a whole part.

    As transformers 5.23 does it (quantizers/quantizers_utils.py, should_convert_module), of patterns that are plain
    names, or made of these with `.*`, numbers and alternatives, such as compressed-tensors' `re:.*self_attn.*`.
    Errors: Refused for anything else, which could take for ever to try.
    """
    return re.compile("|".join(map(_one, patterns))) if patterns else None


def _one(pattern: str) -> str:
    own = pattern.removeprefix("re:")
    at, runs, depth, made = 0, 0, 0, ""
    while at < len(own) and (piece := _PIECE.match(own, at)):
        text, at = piece.group(), piece.end()
        runs += piece.lastgroup in ("any", "digits")
        depth += {"(": 1, "(?:": 1, ")": -1}.get(text, 0)
        if depth < 0:
            break
        made += {"any": ".*", "edge": ""}.get(piece.lastgroup or "", re.escape(text) if text in "-." else text)
    if at < len(own) or not own or depth or runs > MAX_RUNS or len(own) > MAX_PATTERN:
        raise Refused("quantization_config", "names of modules, with `.*` and alternatives at most", pattern[:80])
    return rf"(?:^(?:{made})(?:(?<=\.)|(?=\.|$)))|(?:(?:{made})$)"


def found(expression: re.Pattern[str] | None, names: Iterable[str]) -> bool:
    """Whether one of `names` is named."""
    return expression is not None and any(expression.search(name) for name in names)
