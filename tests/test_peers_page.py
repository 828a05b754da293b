"""docs/peers.md says what this package answers today, and its verdicts follow from its numbers."""

from __future__ import annotations

import re

from tests.peer_questions import PEERS, QUESTIONS
from tests.peers import PAGE, Answer

ROW = re.compile(r"^\| (\S+) (\S+) \| ([^|]+) \| ([\d,]+|–) \| ([\d,]+) \| ([^|]+) \|$", re.MULTILINE)


def test_every_row_is_what_comes_out() -> None:
    rows = ROW.findall(PAGE.read_text())
    assert [(peer, asked) for peer, _, asked, *_ in rows] == [(each.peer, each.asked) for each in QUESTIONS]
    versions = {peer.name: peer.version for peer in PEERS}
    for question, (peer, version, _, theirs, ours, outcome) in zip(QUESTIONS, rows, strict=True):
        assert version == versions[peer]
        assert f"{question.ours():,.0f}" == ours
        said = None if theirs == "–" else float(theirs.replace(",", ""))
        assert Answer(question, said).outcome() == outcome


def test_no_number_is_a_refusal_and_other_numbers_are_told_by_how_much() -> None:
    exact, chosen = QUESTIONS[0], next(each for each in QUESTIONS if each.choice)
    assert Answer(exact, None).outcome() == "refused"
    assert Answer(exact, exact.ours()).outcome() == "equal"
    assert Answer(exact, exact.ours() * 2).outcome().startswith("wrong, +100.0%")
    assert Answer(chosen, chosen.ours() * 2).outcome().startswith("other convention, +100.00%")
