"""Whom the server answers: pages of its own under names that are this machine's, and no page of somebody else's.

A page on the web can have its own name lead to this machine (DNS rebinding), and would then be taken for one of ours:
it could start measurements here. So a name that nobody has named is refused before Streamlit sees the request, and so
is what comes from another page; asked about that one, Streamlit would look up this machine's address at a service.
"""

from __future__ import annotations

import os
import re
import socket
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit import config
from streamlit.runtime import Runtime

from dashboard.command import HOSTS

MOST_UPLOADS = 8
"""Of one visitor, the latest ones: a page has two places for a file."""

_UPLOAD = re.compile(r".*/_stcore/upload_file/([^/]+)/[^/]+")


class Guard:
    """Refuses foreign hosts and origins with status 403, lets no other page frame ours, and bounds what is uploaded."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if not known(headers.get("host", "")):
            await _refuse("No page of this server has that name: --host NAME allows it.", scope, receive, send)
        elif "origin" in headers and not _same(headers["origin"], headers["host"]):
            await _refuse("Only pages of this server are answered.", scope, receive, send)
        else:
            await self._app(scope, receive, _unframed(send))
            if uploaded := _UPLOAD.fullmatch(scope["path"]):
                forget_old_uploads(Runtime.instance().uploaded_file_mgr, uploaded[1])


def known(host: str) -> bool:
    """Whether a Host header names this machine: by an address, which no other name can stand for, or a known name."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    try:
        ip_address(name)
    except ValueError:
        named = (os.environ.get(HOSTS, ""), config.get_option("server.address"), socket.gethostname(), "localhost")
        return name.lower() in ",".join(filter(None, named)).lower().split(",") if name else False
    return True


def _same(origin: str, host: str) -> bool:
    """Whether a page at `origin` is one of the server that it asks as `host`."""
    return origin in (f"http://{host}", f"https://{host}")


async def _refuse(why: str, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": why})
    else:
        await PlainTextResponse(why + "\n", 403)(scope, receive, send)


def _unframed(send: Send) -> Send:
    async def with_policy(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).append("Content-Security-Policy", "frame-ancestors 'self'")
        await send(message)

    return with_policy


def forget_old_uploads(uploads: Any, session: str) -> None:
    """Keep the latest files of a visitor. uploads: Streamlit's manager, which holds them in memory."""
    files = list(uploads.file_storage.get(session, ()))
    for old in files[:-MOST_UPLOADS]:
        uploads.remove_file(session, old)
