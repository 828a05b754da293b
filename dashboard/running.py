"""Run on this machine: starts the harness in the background, shows how far it is, and cancels it.

The run is a process of its own, and what is known of it lies in files: it outlives the page, every visitor sees the
same, and there is one at a time.
"""

from __future__ import annotations

import time
from importlib.util import find_spec
from pathlib import Path
from threading import Lock

import streamlit as st

from calc.errors import Refused
from dashboard import frame, results
from harness.environment import INSTALL, likely_slug
from harness.running import jobs
from harness.running.observer import clock
from harness.running.runner import choose_cases
from harness.suites import SUITES, possible_cases

BUSY, IDLE = 1.0, 10.0
"""Seconds after which the panel looks again: while something runs, and else."""
PROFILE_TIME = 120.0
"""Seconds of the profile that is measured first."""
SEEN = "seen of the job"
_starting = Lock()


def panel() -> None:
    """Draw the panel. It looks by itself how things stand, without the rest of the page."""
    current = _current()
    st.session_state[SEEN] = _mark(current)
    every = BUSY if current is not None and current.active else IDLE
    st.fragment(_panel, run_every=every)()


def start(suite: str, case: str | None, fresh: bool, profile: bool) -> None:
    """Start a run. Errors: Refused for a case that no machine has, and while another goes on, whoever started that."""
    _exists(suite, case or None)
    with _starting:
        _known.clear()
        current = _current()
        if current is not None and current.active:
            raise Refused("run", "one at a time", f"{current.suite}, which goes on")
        jobs.start_background(
            results.folder(), suite, case or None, fresh, profile_time=PROFILE_TIME if profile else None
        )
        _known.clear()


def _exists(suite: str, case: str | None) -> None:
    """Refuse what is in no case of a suite on any machine. The run itself refuses what is in none on this one."""
    try:
        choose_cases(possible_cases(suite), case)
    except Refused as refusal:
        listed = f"a part of the id of a case (python -m harness run --suite {suite} --list prints them)"
        raise Refused("case", listed, refusal.found) from None


def _panel() -> None:
    current = _current()
    if _mark(current) != st.session_state.get(SEEN):
        # A row more, a start or an end: the page behind the panel shows that too.
        st.rerun(scope="app")
    with st.container(border=True):
        if current is not None and current.active:
            _progress(current)
        else:
            if find_spec("torch") is None:
                st.markdown(f"Measuring needs torch: `{INSTALL.rpartition(': ')[2]}`")
            else:
                _form()
            if current is not None:
                _ended(current)


def _form() -> None:
    known = likely_slug() in results.profiles()
    pressed = st.button("Run on this machine", key="run_start")
    with st.expander("Which cases"):
        with st.container(horizontal=True, vertical_alignment="bottom"):
            suite = st.selectbox("Suite", list(SUITES), key="run_suite", width=160)
            case = st.text_input(
                "Only cases that hold", key="run_case", max_chars=200, width=260, placeholder="all, or e.g. training"
            )
        with st.container(horizontal=True):
            fresh = st.checkbox("Measure again", key="run_fresh", help="Else what this commit has not measured yet")
            profile = st.checkbox(
                "Profile first",
                value=not known,
                key="run_profile",
                help="About two minutes: predictions rest on a profile of this machine, whatever others are there. "
                "Needed once.",
            )
    if pressed:
        with frame.refusals("Not started"):
            start(suite, case.strip(), fresh, profile)
            st.rerun(scope="app")


def _progress(job: jobs.Job) -> None:
    what = f"{job.done:,} of {job.total:,} cases, {clock(job.left)} left" if job.total else "starting"
    with st.container(horizontal=True, vertical_alignment="center"):
        st.progress(
            min(job.done / job.total, 1.0) if job.total else 0.0, text=f"Suite {job.suite}: {what}", width="stretch"
        )
        if st.button("Cancel", key="run_cancel"):
            jobs.cancel(job.id, results.folder())
            st.toast("It stops within a second, and keeps what is finished.")
    doing = " ".join(word for word in (job.stage, job.case) if word)
    st.caption(frame.verbatim(doing) if doing else "…")


def _ended(job: jobs.Job) -> None:
    """How the last run ended."""
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(job.updated))
    words = f"Last run: suite {frame.verbatim(job.suite)}, {when}, {job.state}, {_rows(job)}."
    if job.state == "died":
        st.error(f"{words} {frame.verbatim(job.message)}")
    else:
        st.caption(words)


def _rows(job: jobs.Job) -> str:
    """How many cases ended how; where none of them shows on the page as it is, also what shows them."""
    rows = dict(sorted(job.statuses.items(), key=lambda row: (row[0] == "unstable", row)))
    words = ", ".join(f"{count:,} {status}" for status, count in rows.items()) or "nothing new"
    hidden = "unstable" in rows and "ok" not in rows and not st.session_state.get("unstable")
    return f"{words}: switch on `Unstable times too` to see them" if hidden else words


def last_started() -> float | None:
    """When the last run began that has ended, in seconds since 1970; None where there was none."""
    current = _current()
    return None if current is None or current.active else current.started


def _current() -> jobs.Job | None:
    """The run that goes on, or the last one."""
    found = _known(str(results.folder()))
    return next((job for job in found if job.active), found[0] if found else None)


@st.cache_data(ttl=0.5, max_entries=4, show_spinner=False)
def _known(folder: str) -> list[jobs.Job]:
    return jobs.jobs(Path(folder))


def _mark(job: jobs.Job | None) -> tuple[object, ...]:
    return () if job is None else (job.id, job.active, job.done)
