"""A visitor without a browser: speaks with the server as Streamlit's own page does, and times what comes back."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit

from streamlit.proto.Alert_pb2 import Alert
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.WidgetStates_pb2 import WidgetState
from websockets.sync.client import ClientConnection, connect

from tests.waiting import PATIENCE


@dataclass
class Drawn:
    """What one run of the page sent. seconds: from the question to the end of the run. figures: label -> value.
    errors: messages of faults and refusals. widgets: label -> id of each slider."""

    seconds: float
    figures: dict[str, str] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    markdown: list[str] = field(default_factory=list)
    widgets: dict[str, str] = field(default_factory=dict)


class Client:
    """One session on the server, for as long as the block lasts."""

    def __init__(self, address: str, page: str, **knobs: str) -> None:
        self._page, self._query = page, urlencode(knobs)
        self._widgets: dict[str, str] = {}
        self._hash = ""
        self._states: dict[str, WidgetState] = {}
        self._opening = connect(
            f"ws://{urlsplit(address).netloc}/_stcore/stream",
            origin=address,  # pyright: ignore[reportArgumentType]
            subprotocols=["streamlit"],  # pyright: ignore[reportArgumentType]
            max_size=None,
            compression=None,
        )

    def __enter__(self) -> Client:
        self._socket: ClientConnection = self._opening.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._opening.__exit__(*exception)

    def draw(self, **moved: str) -> Drawn:
        """Draw the page. moved: a slider of options by its label's first word -> the option that it is moved to."""
        for word, option in moved.items():
            widget = next(self._widgets[label] for label in self._widgets if label.lower().startswith(word))
            self._states[widget] = WidgetState(id=widget)
            self._states[widget].string_array_value.data.append(option)
        asked = BackMsg()
        asked.rerun_script.query_string = self._query
        asked.rerun_script.page_script_hash = self._hash
        asked.rerun_script.page_name = "" if self._hash else self._page
        asked.rerun_script.widget_states.widgets.extend(self._states.values())
        begun = time.perf_counter()
        self._socket.send(asked.SerializeToString())
        drawn = Drawn(0.0)
        while True:
            said = ForwardMsg()
            said.ParseFromString(self._socket.recv(PATIENCE))  # pyright: ignore[reportArgumentType]
            kind = said.WhichOneof("type")
            if kind == "navigation":
                self._hash = said.navigation.page_script_hash
            elif kind == "delta" and said.delta.WhichOneof("type") == "new_element":
                _note(said.delta.new_element, drawn)
            elif kind == "script_finished":
                self._widgets.update(drawn.widgets)
                drawn.seconds = time.perf_counter() - begun
                return drawn


def _note(element: Any, drawn: Drawn) -> None:
    kind = element.WhichOneof("type")
    if kind == "metric":
        drawn.figures[element.metric.label] = element.metric.body
    elif kind == "exception":
        drawn.errors.append(element.exception.message)
    elif kind == "alert" and element.alert.format == Alert.ERROR:
        drawn.errors.append(element.alert.body)
    elif kind == "markdown":
        drawn.markdown.append(element.markdown.body)
    elif kind == "slider":
        drawn.widgets[element.slider.label] = element.slider.id
