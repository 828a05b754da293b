"""Nothing of a cluster is imported where none is asked for, and without the extra one line says how to get it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.reference import ROOT

BLOCKED = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("ray", "pyarrow"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
sys.argv = ["python -m calc", *sys.argv[1:]]
from calc.cli import main
main()
"""
GRID = ("sweep", "gpt2", "--over", "batch=1..4", "--least", "kv_cache", "--json")


def without_the_extra(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", BLOCKED, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_processes_need_no_extra() -> None:
    alone = without_the_extra(*GRID)
    assert alone.returncode == 0
    assert alone.stdout.count("\n") == 4
    code = (
        "import sys, calc; calc.sweep_grid(calc.load_model('gpt2'), {'batch': [1, 2]}, 'kv_cache'); print(*sys.modules)"
    )
    loaded = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert not {"ray", "pyarrow", "multiprocessing", "pandas"} & set(loaded.split())


@pytest.mark.parametrize(("option", "module"), [("--ray", "ray"), ("--keep", "pyarrow")])
def test_the_pip_command_is_told(tmp_path: Path, option: str, module: str) -> None:
    done = without_the_extra(*GRID, option, str(tmp_path))
    assert done.returncode == 2
    expected = "the extra cluster: pip install -e '.[cluster]' in a clone"
    assert done.stderr == f"error: {option}: expected {expected}, found no module {module}\n"
