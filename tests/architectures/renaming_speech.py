"""Hugging Face's names of parameter tensors in SeamlessM4T's encoder of speech, read as ours. Rules as in
renaming_media.

Behind its Conformer layers stand others, whose numbers in ours follow from how many there are: `CONFORMER_LAYERS`.
"""

from __future__ import annotations

import re

from tests.architectures.renaming_media import RULES as MEDIA
from tests.architectures.renaming_text import Rules

CONFORMER_LAYERS = 3
HEARD = re.compile(r"(?:speech_encoder|t2u_model|vocoder)\..+")
_HALVES = {"residual_layer_norm": "residual_norm", "self_attn_layer_norm": "attention_norm"}
_HALVES |= {"residual_conv": "residual_conv", "self_attn_conv": "attention_conv"}
_HALVES |= {r"self_attn\.linear_(?P<p>[qkv])": r"attention.\g<p>_proj", r"self_attn\.linear_out": "attention.o_proj"}
_DENSE = {"intermediate": "up", "output": "down"}


def _behind() -> Rules:
    """What reads the Conformer's result, and two layers of an adapter."""
    whole = f"encoder.layers.{CONFORMER_LAYERS}"
    rules = [(r"speech_encoder\.encoder\.layer_norm\.(?P<w>\w+)", rf"{whole}.channel_norm.\g<w>")]
    rules += [(rf"speech_encoder\.intermediate_ffn\.{t}_dense\.(?P<w>\w+)", rf"{whole}.mlp.{o}_proj.\g<w>")
              for t, o in _DENSE.items()]  # fmt: skip
    for i in range(2):
        theirs, layer = rf"speech_encoder\.adapter\.layers\.{i}\.", f"encoder.layers.{CONFORMER_LAYERS + 1 + i}"
        rules += [(rf"{theirs}{t}\.(?P<w>\w+)", rf"encoder.shortened.adapter{i + 1}.{o}.\g<w>")
                  for t, o in _HALVES.items()]  # fmt: skip
        rules += [(rf"{theirs}ffn\.{t}_dense\.(?P<w>\w+)", rf"{layer}.mlp.{o}_proj.\g<w>") for t, o in _DENSE.items()]
        rules.append((rf"{theirs}ffn_layer_norm\.(?P<w>\w+)", rf"{layer}.channel_norm.\g<w>"))
    rules.append((r"speech_encoder\.inner_layer_norm\.(?P<w>\w+)", r"encoder.final_norm.\g<w>"))
    return tuple((theirs, (ours,)) for theirs, ours in rules)


_HEARS: Rules = tuple((theirs, tuple(f"encoder.{path}" for path in ours)) for theirs, ours in MEDIA["wav2vec2-bert"])
_SPEAKS: Rules = ((r"(?P<p>(?:t2u_model|vocoder)\..+)", (r"speech.\g<p>",)),)
RULES: Rules = (*_SPEAKS, *_behind(), *_HEARS)
