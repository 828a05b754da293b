"""A timeline as a Chrome trace, which chrome://tracing and ui.perfetto.dev draw."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from calc.errors import Refused
from calc.time.schedule.timeline import Timeline

STREAMS = {"computing": 0, "network": 1, "host": 2}
"""Stream -> its line below the stage."""


def chrome_trace(timeline: Timeline) -> dict[str, Any]:
    """The trace: a process a stage, a thread a stream, microseconds (Google's Trace Event Format, complete events)."""
    found: list[dict[str, Any]] = []
    for stage, events in enumerate(timeline.stages):
        found.append({"name": "process_name", "ph": "M", "pid": stage, "args": {"name": f"stage {stage}"}})
        for stream in dict.fromkeys(["computing", "network", *(event.stream for event in events)]):
            line = STREAMS[stream]
            found.append({"name": "thread_name", "ph": "M", "pid": stage, "tid": line, "args": {"name": stream}})
        found += [
            {
                "name": event.what,
                "ph": "X",
                "pid": stage,
                "tid": STREAMS[event.stream],
                "ts": event.start * 1e6,
                "dur": (event.end - event.start) * 1e6,
                "args": {"micro-batch": event.micro_batch, "chunk": event.chunk},
            }
            for event in events
        ]
    return {"traceEvents": found, "displayTimeUnit": "ms", "otherData": {"schedule": timeline.schedule}}


def save_timeline(path: str, timeline: Timeline) -> None:
    """Write the trace. Errors: Refused for a name that does not end in .json."""
    if not path.endswith(".json"):
        raise Refused("--timeline", "a file that ends in .json", path[:80])
    Path(path).write_text(json.dumps(chrome_trace(timeline)))
