"""Another commit of this repository as files, for as long as it is needed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from calc.errors import Refused, printable


@contextmanager
def files_of(repository: Path, reference: str) -> Iterator[tuple[Path, str]]:
    """The files of a commit in a temporary folder, and the commit's short id; it is removed whatever happens.

    The repository learns nothing of it, so that nothing is left in there even by a kill, and none of its hooks runs.
    Errors: Refused for what is no repository, and for a reference that names no commit.
    """
    commit = resolve(repository, reference)
    folder = Path(tempfile.mkdtemp(prefix="gate-"))
    try:
        own_index = {"GIT_INDEX_FILE": str(folder / "index")}
        _git(repository, "read-tree", commit, **own_index)
        _git(repository, "checkout-index", "--all", f"--prefix={folder / 'tree'}{os.sep}", **own_index)
        yield folder / "tree", commit[:12]
    finally:
        # A second Ctrl-C must not leave half of it behind.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            signal.signal(signal.SIGINT, before)


def resolve(repository: Path, reference: str) -> str:
    """The id of the commit that a reference names. Errors: Refused."""
    if reference.startswith("-"):
        raise Refused("--against", "a commit, a branch or a tag", reference)
    try:
        return _git(repository, "rev-parse", "--verify", "--quiet", f"{reference}^{{commit}}")
    except Refused:
        inside = subprocess.run(["git", "-C", str(repository), "rev-parse"], capture_output=True, check=False)
        if inside.returncode:
            raise Refused("--against", "a git repository around the package harness", "none") from None
        known = "a commit, a branch or a tag"
        if _git(repository, "rev-parse", "--is-shallow-repository") == "true":
            known += " that is here: this clone is shallow (git fetch --unshallow, or fetch-depth: 0 on CI)"
        raise Refused("--against", known, reference) from None


def _git(repository: Path, *words: str, **variables: str) -> str:
    """What git prints. In a process group of its own, so that Ctrl-C in a terminal does not stop it half-way.

    Errors: Refused with git's last line.
    """
    command = ["git", "-C", str(repository), *words]
    try:
        own = os.environ | variables
        done = subprocess.run(command, capture_output=True, text=True, env=own, process_group=0, check=False)
    except OSError as error:
        raise Refused("git", "a git that can be run", error.strerror or str(error)) from None
    if done.returncode:
        why = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        raise Refused(f"git {words[0]}", "success", printable(why))
    return done.stdout.strip()
