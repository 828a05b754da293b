"""`python -m tests.peers [FOLDER]` writes docs/peers.md: what other calculators answer where there is one answer.

Each is installed from the package index into an environment of its own below FOLDER (by default a new one, which takes
minutes and some gigabytes), is asked by a small program, and judged by what it prints: equal, of another convention
where what is counted is a choice, wrong where it is not, or refused where its program ends without a number.
"""

from __future__ import annotations

import datetime
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from tests.peer_questions import PEERS, QUESTIONS, Peer, Question
from tests.reference import ROOT

PAGE = ROOT / "docs" / "peers.md"


class Answer(NamedTuple):
    """What came out. theirs: None where the program ended without a number."""

    question: Question
    theirs: float | None

    def outcome(self) -> str:
        """equal (to 5 digits where the number is no whole one), another convention, wrong by so much, or refused."""
        if self.theirs is None:
            return "refused"
        off = self.theirs / self.question.ours() - 1
        exact = not self.question.quantity.isupper()
        if off == 0 if exact else abs(off) < 1e-3:
            return "equal"
        if self.question.choice:
            small = f"{self.theirs - self.question.ours():+,.0f}"
            return f"other convention, {f'{off:+.2%}' if abs(off) >= 5e-5 else small}: {self.question.choice}"
        return f"wrong, {off:+.1%}: {self.question.cause}"


def python_of(peer: Peer, folder: Path) -> Path:
    """The interpreter of the environment that has it, made where there is none."""
    found = folder / peer.name / "bin" / "python"
    if not found.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder / peer.name)], check=True)
        wanted = [f"{peer.name}=={peer.version}", *peer.needs]
        subprocess.run([str(found), "-m", "pip", "install", "-q", *wanted], check=True)
    return found


def ask(question: Question, python: Path, folder: Path) -> Answer:
    """Run its program beside the config.json."""
    (folder / "config.json").write_text(json.dumps(question.config()))
    done = subprocess.run([str(python), "-c", question.program], capture_output=True, text=True, cwd=folder)
    last = (done.stdout.strip().splitlines() or [""])[-1]
    return Answer(question, float(last) if re.fullmatch(r"[\d.]+(e[+-]?\d+)?", last) else None)


def page(answers: list[Answer], day: str) -> str:
    """The document."""
    lines = [
        "# What other calculators answer",
        "",
        f"Asked on {day} by `python -m tests.peers`, which installs each from the package index into an environment of",
        "its own. Questions are those that have one answer; where a calculator may choose what it counts, another",
        "choice is no error and is named. A test works our column out again.",
        "",
        "`hf-mem` and `accelerate estimate-memory` fetch a model's description from the Hub; here their own functions",
        "are given the same config from a file. `aiconfigurator` is asked what has one answer: its times have none.",
        "",
        "| calculator | asked | theirs | ours | outcome |",
        "|---|---|---:|---:|---|",
    ]
    of = {peer.name: peer.version for peer in PEERS}
    for each in answers:
        it = each.question
        theirs = "–" if each.theirs is None else f"{each.theirs:,.0f}"
        row = (f"{it.peer} {of[it.peer]}", it.asked, theirs, f"{it.ours():,.0f}", each.outcome())
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="peers-"))
    answers = []
    for peer in PEERS:
        python = python_of(peer, folder)
        for question in QUESTIONS:
            if question.peer == peer.name:
                answers.append(ask(question, python, folder))
                print(f"{peer.name}: {question.asked}: {answers[-1].outcome()}", file=sys.stderr)
    PAGE.write_text(page(answers, datetime.date.today().isoformat()))


if __name__ == "__main__":
    main()
