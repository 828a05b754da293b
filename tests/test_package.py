"""The package as `pip install .` makes it: what is in it, which version, and that nothing is left in the tree."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.reference import ROOT

PACKAGES = ("calc/", "harness/", "reference_models/", "dashboard/")


class Built(NamedTuple):
    """The tree that was built from, before and after, and what came out."""

    before: list[Path]
    after: list[Path]
    wheel: Path
    source: Path


def tracked() -> list[str]:
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("no repository around the packages")
    return [name for name in done.stdout.splitlines() if (ROOT / name).is_file()]


def build(tree: Path, out: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(out)]
    subprocess.run(command, cwd=tree, check=True, capture_output=True)


def version_of(tree: Path) -> str:
    command = [sys.executable, "-m", "hatchling", "version"]
    return subprocess.run(command, cwd=tree, check=True, capture_output=True, text=True).stdout.strip()


def members(wheel: Path) -> set[str]:
    return {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """From the files that git knows and what an older build has left, in no repository."""
    pytest.importorskip("hatch_vcs")
    folder = tmp_path_factory.mktemp("package")
    tree, out = folder / "tree", folder / "out"
    for name in tracked():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes((ROOT / name).read_bytes())
    (tree / "build" / "lib" / "calc").mkdir(parents=True)
    (tree / "build" / "lib" / "calc" / "of_an_older_version.py").touch()
    before = sorted(tree.rglob("*"))
    build(tree, out)
    (wheel,), (source,) = out.glob("*.whl"), out.glob("*.tar.gz")
    return Built(before, sorted(tree.rglob("*")), wheel, source)


@pytest.mark.slow
def test_a_build_holds_every_file_and_no_other_and_leaves_nothing_in_the_tree(built: Built) -> None:
    assert built.after == built.before
    assert members(built.wheel) == {name for name in tracked() if name.startswith(PACKAGES)}
    with tarfile.open(built.source) as archive:
        unpacked = {name.partition("/")[2] for name in archive.getnames()}
    assert unpacked == {*tracked(), "PKG-INFO"}


@pytest.mark.slow
def test_the_source_distribution_makes_the_same_wheel_of_the_same_version(built: Built, tmp_path: Path) -> None:
    """Though it has no repository: what it was built from is told by the files in it."""
    with tarfile.open(built.source) as archive:
        archive.extractall(tmp_path, filter="data")
    (tree,) = tmp_path.iterdir()
    assert version_of(tree) == "0.1.0+unknown"
    build(tree, tmp_path / "out")
    (wheel,) = (tmp_path / "out").glob("*.whl")
    assert wheel.name == built.wheel.name
    assert members(wheel) == members(built.wheel)


@pytest.mark.slow
def test_the_index_would_take_it(built: Built) -> None:
    pytest.importorskip("twine")
    command = [sys.executable, "-m", "twine", "check", "--strict", str(built.wheel), str(built.source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_the_version_is_the_last_tag_and_counts_commits_since(tmp_path: Path) -> None:
    pytest.importorskip("hatch_vcs")

    def git(*words: str) -> None:
        own = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *own, *words], cwd=tmp_path, check=True, capture_output=True)

    for name in ("pyproject.toml", "README.md", "LICENSE"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "one")
    assert re.fullmatch(r"0\.1\.1\.dev1\+unknown\.g[0-9a-f]+", version_of(tmp_path))
    git("tag", "v7.2.0")
    assert version_of(tmp_path) == "7.2.0"
    git("commit", "-q", "--allow-empty", "-m", "two")
    assert re.fullmatch(r"7\.2\.1\.dev1\+g[0-9a-f]+", version_of(tmp_path))
