"""Another commit of this repository as files, for as long as it is needed."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from calc.errors import Refused, printable


@contextmanager
def worktree(repository: Path, reference: str) -> Iterator[tuple[Path, str]]:
    """The files of a commit in a temporary worktree, and the commit's short id; it is removed whatever happens.

    Errors: Refused for what is no repository, and for a reference that names no commit.
    """
    commit = resolve(repository, reference)
    folder = Path(tempfile.mkdtemp(prefix="gate-"))
    try:
        _git(repository, "worktree", "add", "--detach", "--force", str(folder / "tree"), commit)
        yield folder / "tree", commit[:12]
    finally:
        # A second Ctrl-C must not leave half of it behind.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            shutil.rmtree(folder, ignore_errors=True)
            _git(repository, "worktree", "prune")
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
        raise Refused("--against", "a commit, a branch or a tag", reference) from None


def _git(repository: Path, *words: str) -> str:
    """What git prints. In a process group of its own, so that Ctrl-C in a terminal does not stop it half-way.

    Errors: Refused with git's last line.
    """
    command = ["git", "-C", str(repository), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, process_group=0, check=False)
    except OSError as error:
        raise Refused("git", "a git that can be run", error.strerror or str(error)) from None
    if done.returncode:
        why = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        raise Refused(f"git {words[0]}", "success", printable(why))
    return done.stdout.strip()
