"""How fast files are counted: the library's own batch encoding of the same text is the yardstick."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from calc.tokens.counting import Tally, count_file
from tests.reference import ROOT
from tests.tokens.pipelines import described, encoder

pytestmark = pytest.mark.slow
TEXT = "".join(path.read_text() for path in sorted((ROOT / "calc" / "cli").rglob("*.py")))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return path


@pytest.mark.benchmark(group="a file is to be counted at 90 % of encode_batch's speed at least", min_rounds=3)
@pytest.mark.parametrize("how", ["count_file", "encode_batch of lines", "encode_batch of 64 kB"])
def test_counting(benchmark: Any, file: Path, how: str) -> None:
    tokenizer = encoder("gpt4-2")
    if how == "count_file":
        tally = benchmark(lambda: counted(file))
        assert tally.tokens == len(tokenizer.library.encode(TEXT).ids)
        return
    size = 2**16
    texts = TEXT.splitlines(True) if "lines" in how else [TEXT[i : i + size] for i in range(0, len(TEXT), size)]
    found = benchmark(lambda: tokenizer.library.encode_batch(texts, add_special_tokens=False))
    assert len(found) == len(texts)


def counted(path: Path) -> Tally:
    tally = Tally(str(path))
    count_file(tally, encoder("gpt4-2"))
    return tally


def test_memory_is_bounded(tmp_path: Path) -> None:
    """A file of 8 MB; what a file takes beyond its blocks of 1 MB would show."""
    path, tokenizer = tmp_path / "text.txt", tmp_path / "tokenizer.json"
    path.write_text(TEXT * (8_000_000 // len(TEXT) + 1))
    tokenizer.write_text(described("gpt4-2"))
    command = [sys.executable, "-m", "calc", "tokens", str(path), "--tokenizer", str(tokenizer), "--json"]
    code = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True); "
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    done = subprocess.run([sys.executable, "-c", code, *command], cwd=ROOT, capture_output=True, text=True, check=True)
    peak = int(done.stdout.split()[-1]) * (1 if sys.platform == "darwin" else 1024)
    assert resource.getpagesize() < peak < 500e6
