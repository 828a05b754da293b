"""The two walks of docs/architecture.md, walked: which rooms of `calc` a command enters."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from calc.cli import cli
from tests.reference import ROOT

CALC = str(ROOT / "calc") + "/"
CONFIG = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 100,
    "max_position_embeddings": 64,
}
FINDING = {"architectures", "reading"}
"""Rooms that find a model, which the first walk tells of."""
MOST = 8


def documented() -> list[list[str]]:
    """The rooms of both walks, as the page lists them."""
    text = (ROOT / "docs" / "architecture.md").read_text().partition("## Two walks")[2].partition("\n## ")[0]
    return [re.findall(r"`(\w+)`", line) for line in text.splitlines() if line.startswith("Rooms: ")]


def entered(*arguments: str) -> set[str]:
    """The packages of `calc` whose functions a command runs, but for what modules do while they are imported."""
    found: set[str] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(CALC):
            room, *inside = path.removeprefix(CALC).split("/")
            if inside and room not in found and not importing(frame):
                found.add(room)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        cli.main([*arguments, "--json"], standalone_mode=False)
    finally:
        sys.setprofile(before)
    return found


def importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if "importlib" in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False


def test_walks_are_short_and_name_no_room_twice() -> None:
    for rooms in documented():
        assert len(rooms) == len(set(rooms)) <= MOST


def test_a_key_on_its_way_to_the_cache(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(CONFIG))
    assert entered("kv-cache", str(config)) == set(documented()[0])


def test_a_flag_on_its_way_to_the_memory_of_a_rank() -> None:
    assert entered("memory", "llama-3-8b", "--tp", "8") - FINDING == set(documented()[1])
