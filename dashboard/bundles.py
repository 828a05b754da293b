"""Streamlit's scripts and styles, compressed: it sends them as they are, and a first visit waits for six megabytes.

Each is compressed once, on its first request, and kept. Their names hold a digest of what is in them, so that a browser
may keep them too, as long as it likes.
"""

from __future__ import annotations

import gzip
from functools import cache
from mimetypes import guess_type
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from streamlit import file_util

PREFIX = "/static/"
TEXT = (".js", ".css")
"""What is compressed; fonts and pictures are already."""
HEADERS = {
    "Cache-Control": "public, immutable, max-age=31536000",
    "Vary": "Accept-Encoding",
    "Content-Encoding": "gzip",
}


class Bundles:
    """Answers for Streamlit's own scripts and styles where a browser takes them compressed; all else is passed on."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        name = scope["path"].removeprefix(PREFIX) if _compressible(scope) else ""
        path = _files().get(name)
        if path is None:
            await self._app(scope, receive, send)
            return
        packed = await run_in_threadpool(_packed, path)
        await Response(packed, media_type=guess_type(name)[0], headers=HEADERS)(scope, receive, send)


def _compressible(scope: Scope) -> bool:
    if scope["type"] != "http" or scope["method"] != "GET" or not scope["path"].startswith(PREFIX):
        return False
    return "gzip" in Headers(scope=scope).get("accept-encoding", "")


@cache
def _files() -> dict[str, Path]:
    """Name behind the prefix -> the file: what is not listed here is never opened."""
    folder = Path(file_util.get_static_dir()) / "static"
    return {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.suffix in TEXT}


@cache
def _packed(path: Path) -> bytes:
    return gzip.compress(path.read_bytes(), 6, mtime=0)
