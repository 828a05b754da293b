"""Whom the server answers, as a real one does: no foreign name, no foreign page, and no heap of uploads."""

from __future__ import annotations

import http.client
import socket
import sys
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager
from streamlit.runtime.uploaded_file_manager import UploadedFileRec
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from dashboard import command
from dashboard.guard import MOST_UPLOADS, forget_old_uploads, known
from tests.dashboard.serving import serving
from tests.waiting import PATIENCE

NAMED = "envelope.example"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server in whose folder a file has the name of our package."""
    folder = tmp_path_factory.mktemp("work")
    (folder / "dashboard.py").write_text("raise SystemExit('a file of the user was imported')\n")
    with serving(folder / "results", "--host", NAMED, cwd=folder) as address:
        yield address


def stream(server: str, origin: str) -> Any:
    """The connection that a page at `origin` would open to its server."""
    address = f"ws://{urlsplit(server).netloc}/_stcore/stream"
    asked: dict[str, Any] = {"origin": origin, "subprotocols": ["streamlit"], "open_timeout": PATIENCE}
    return connect(address, **asked)


def answered(server: str, method: str = "GET", path: str = "/", **headers: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection(urlsplit(server).netloc, timeout=PATIENCE)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        answer.read()
    finally:
        connection.close()
    return answer


@pytest.mark.slow
@pytest.mark.parametrize("host", ["localhost:1", "127.0.0.1", "[::1]:8501", NAMED])
def test_names_of_this_machine_are_answered_and_framed_by_no_other_page(server: str, host: str) -> None:
    answer = answered(server, Host=host)
    assert answer.status == 200
    assert "frame-ancestors 'self'" in (answer.getheader("Content-Security-Policy") or "")


@pytest.mark.slow
@pytest.mark.parametrize("host", ["evil.example", f"x.{NAMED}", "localhost.evil.example", "", "[", "127.0.0.1.nip.io"])
def test_a_foreign_name_is_refused(server: str, host: str) -> None:
    for path in ("/", "/_stcore/health", "/_stcore/host-config"):
        assert answered(server, path=path, Host=host).status == 403


@pytest.mark.slow
@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:1", "http://[", "http://"])
def test_a_foreign_page_opens_no_connection_and_is_asked_about_nowhere(server: str, origin: str) -> None:
    with pytest.raises(InvalidStatus) as refused, stream(server, origin):
        pass
    assert refused.value.response.status_code == 403
    assert answered(server, "OPTIONS", "/_stcore/upload_file/a/b", Origin=origin).status == 403


@pytest.mark.slow
def test_a_page_of_ours_opens_a_connection(server: str) -> None:
    with stream(server, server) as connection:
        assert connection.subprotocol == "streamlit"


@pytest.mark.slow
def test_a_name_led_here_by_its_owner_opens_no_connection(server: str) -> None:
    """DNS rebinding: the page's own name stands in both headers."""
    port = urlsplit(server).port
    rebound = f"ws://evil.example:{port}/_stcore/stream"
    with (
        pytest.raises(InvalidStatus) as refused,
        connect(rebound, origin=f"http://evil.example:{port}", sock=socket.create_connection(("127.0.0.1", port))),  # pyright: ignore[reportArgumentType]
    ):
        pass
    assert refused.value.response.status_code == 403


def test_of_many_uploads_the_latest_are_held() -> None:
    uploads = MemoryUploadedFileManager("/upload")
    for visitor in ("a", "b"):
        for i in range(3 * MOST_UPLOADS):
            uploads.add_file(visitor, UploadedFileRec(str(i), "runs.csv", "text/csv", b"N,D,loss\n"))
    forget_old_uploads(uploads, "a")
    assert list(uploads.file_storage["a"]) == [str(i) for i in range(2 * MOST_UPLOADS, 3 * MOST_UPLOADS)]
    assert len(uploads.file_storage["b"]) == 3 * MOST_UPLOADS
    forget_old_uploads(uploads, "nobody")


@pytest.mark.parametrize(("host", "is_known"), [("localhost", True), ("LOCALHOST:80", True), ("a,localhost", False)])
def test_what_is_a_known_name(host: str, is_known: bool) -> None:
    assert known(host) == is_known


def test_the_server_takes_no_module_from_the_folder_one_works_in() -> None:
    assert command.line(8600, "localhost", browser=False)[:3] == [sys.executable, "-P", "-m"]
