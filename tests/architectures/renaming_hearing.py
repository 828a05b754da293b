"""Hugging Face's names of parameter tensors in models that hear, read as ours. Rules as in renaming_media."""

from __future__ import annotations

import re

from tests.architectures.renaming_media import WHISPER
from tests.architectures.renaming_text import Rules

AUDIO = re.compile(r"(?:model\.)?(?:audio_tower|multi_modal_projector)\..+")
"""What is the audio tower's, and not the language model's."""
_ENCODER = tuple(
    (theirs.replace(r"model\.encoder\.", r"(?:model\.)?audio_tower\."), tuple(f"audio.{path[8:]}" for path in ours))
    for theirs, ours in WHISPER
    if ours[0].startswith("encoder.")
)
RULES: Rules = (
    (r"(?:model\.)?audio_tower\.(?P<c>conv\d)\.(?P<w>\w+)", (r"audio.embedding.\g<c>.conv.\g<w>",)),
    *_ENCODER,
    (r"(?:model\.)?multi_modal_projector\.(?P<p>\w+)\.(?P<w>\w+)", (r"audio.projector.\g<p>.\g<w>",)),
)
HEARS: dict[str, Rules] = {
    "qwen2_audio": (
        (r"(?:model\.)?audio_tower\.layer_norm\.(?P<w>\w+)", (r"audio.projector.norm.\g<w>",)),
        *RULES,
    ),
    "voxtral": RULES,
    "qwen3_omni_moe_thinker": (
        (r"(?:model\.)?audio_tower\.(?P<c>conv2d\d)\.(?P<w>\w+)", (r"audio.embedding.\g<c>.conv.\g<w>",)),
        (r"(?:model\.)?audio_tower\.conv_out\.weight", ("audio.embedding.project_in.weight",)),
        (r"(?:model\.)?audio_tower\.ln_post\.(?P<w>\w+)", (r"audio.projector.norm.\g<w>",)),
        (r"(?:model\.)?audio_tower\.(?P<p>proj\d)\.(?P<w>\w+)", (r"audio.projector.\g<p>.\g<w>",)),
        *RULES,
    ),
    "qwen2_5_omni_thinker": (
        (r"(?:model\.)?audio_tower\.ln_post\.(?P<w>\w+)", (r"audio.projector.norm.\g<w>",)),
        (r"(?:model\.)?audio_tower\.proj\.(?P<w>\w+)", (r"audio.projector.proj.\g<w>",)),
        (r"(?:model\.)?audio_tower\.audio_bos_eos_token\.weight", ("audio.projector.unread_marks.weight",)),
        *RULES,
    ),
}
