"""The package as `pip install .` makes it: what is in it, and that nothing is left in the tree."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.reference import ROOT

PACKAGES = ("calc/", "harness/", "reference_models/", "dashboard/")


def tracked() -> list[str]:
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("no repository around the packages")
    return [name for name in done.stdout.splitlines() if (ROOT / name).is_file()]


@pytest.mark.slow
def test_a_build_holds_what_it_should_and_leaves_nothing_in_the_tree(tmp_path: Path) -> None:
    tree, out = tmp_path / "tree", tmp_path / "out"
    for name in tracked():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes((ROOT / name).read_bytes())
    (tree / "build" / "lib" / "calc").mkdir(parents=True)
    (tree / "build" / "lib" / "calc" / "of_an_older_version.py").touch()
    before = sorted(tree.rglob("*"))
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(out)]
    subprocess.run(command, cwd=tree, check=True, capture_output=True)
    assert sorted(tree.rglob("*")) == before

    (wheel,), (source,) = out.glob("*.whl"), out.glob("*.tar.gz")
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert inside == {name for name in tracked() if name.startswith(PACKAGES)}
    with tarfile.open(source) as archive:
        unpacked = {name.partition("/")[2] for name in archive.getnames()}
    for name in ("app.py", "docs/architecture.md", "docs/images/model.png", "tests/conftest.py", "constraints.txt"):
        assert name in unpacked
    assert {name for name in tracked() if name.startswith((*PACKAGES, "tests/", "docs/"))} <= unpacked
