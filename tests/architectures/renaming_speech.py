"""Hugging Face's names of parameter tensors in SeamlessM4T's encoder of speech, read as ours. Rules as in
renaming_media.

Behind its Conformer layers stand others, whose numbers in ours follow from how many there are: `CONFORMER_LAYERS`.
"""

from __future__ import annotations

import re

from tests.architectures.renaming_media import RULES as MEDIA
from tests.architectures.renaming_media import adapter
from tests.architectures.renaming_text import Rules

CONFORMER_LAYERS = 3
HEARD = re.compile(r"(?:speech_encoder|t2u_model|vocoder)\..+")
_BEHIND: Rules = (
    (r"speech_encoder\.encoder\.layer_norm\.(?P<w>\w+)", (rf"encoder.layers.{CONFORMER_LAYERS}.channel_norm.\g<w>",)),
    *adapter(r"speech_encoder\.", "encoder.", CONFORMER_LAYERS),
    (r"speech_encoder\.inner_layer_norm\.(?P<w>\w+)", (r"encoder.final_norm.\g<w>",)),
)
_HEARS: Rules = tuple((theirs, tuple(f"encoder.{path}" for path in ours)) for theirs, ours in MEDIA["wav2vec2-bert"])
_SPEAKS: Rules = ((r"(?P<p>(?:t2u_model|vocoder)\..+)", (r"speech.\g<p>",)),)
RULES: Rules = (*_SPEAKS, *_BEHIND, *_HEARS)
