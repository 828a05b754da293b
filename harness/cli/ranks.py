"""`run` under torchrun: suites of several ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from calc.errors import Refused
from calc.spec.clusters import load_cluster
from calc.spec.fields import DeviceKind
from harness.cases.case import Case
from harness.environment import here
from harness.ranks.runner import Job, run_suite
from harness.ranks.start import START, Place, end_with_agent, place_of
from harness.ranks.suites import RANK_SUITES
from harness.running.runner import Summary, choose_cases


def place_for(suite: str) -> Place | None:
    """This process's place where a suite is one of ranks, None where it is none.

    Errors: Refused for such a suite without torchrun, and for another under it.
    """
    place = place_of()
    if suite in RANK_SUITES and place is None:
        raise Refused("--suite", f"a start of several ranks for {suite}: {START}", "one process")
    if suite not in RANK_SUITES and place is not None:
        raise Refused("--suite", f"one of {', '.join(RANK_SUITES)} under torchrun", suite)
    return place


def run_ranks(suite: str, place: Place, results: Path, cluster: str | None, **given: Any) -> Summary:
    """Measure a suite among the ranks that torchrun started, which end with it."""
    end_with_agent()
    if cluster is not None and place.first and not load_cluster(cluster).measured:
        raise Refused("--cluster", "a description with measured curves, as this suite writes one", cluster)
    return run_suite(Job(suite, results, cluster=cluster, **given), place, lambda text: click.echo(text, err=True))


def rank_cases(suite: str, place: Place, device: DeviceKind | None, pattern: str | None) -> list[Case]:
    """The cases that a suite has for so many ranks, without joining them."""
    return choose_cases(list(RANK_SUITES[suite](place, here(device).device)), pattern)
