"""What the server answers at the address of each page: Streamlit's own page, told where its server is.

Left alone, that page guesses from its address, and a visitor who opens `/memory` has two failed requests in the console
before the third one is right. And the page that opens first would be no page at all under its own name.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import click
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route
from streamlit import config, file_util
from streamlit.starlette import App

from dashboard.menu import PAGES

HEAD = "<head>"
FIRST = PAGES[0].path
"""The page that stands at `/`."""


def page(request: Request) -> Response:
    """Streamlit's page. Its server is where the page is, less the page's own path: a proxy may have put more before."""
    own = len(request.url.path)
    server = f'location.origin+location.pathname.slice(0,-{own})+"/"'
    text = (Path(file_util.get_static_dir()) / "index.html").read_text(encoding="utf-8")
    script = f"<script>window.__streamlit={{BACKEND_BASE_URL:{server}}}</script>"
    return HTMLResponse(text.replace(HEAD, HEAD + script, 1), headers={"Cache-Control": "no-cache"})


def first(request: Request) -> Response:
    """The first page under its own name: it stands at `/`, with the same choices."""
    return RedirectResponse("./" + (f"?{request.url.query}" if request.url.query else ""))


@asynccontextmanager
async def announced(_app: App) -> AsyncIterator[None]:
    """While the server runs: where it is. Streamlit's own words advertise other things beside."""
    address = config.get_option("browser.serverAddress") or config.get_option("server.address") or "localhost"
    host = f"[{address}]" if ":" in address else address
    click.echo(f"Envelope is at http://{host}:{config.get_option('server.port')} (Ctrl-C stops it)")
    yield


ROUTES = [
    Route("/", page),
    Route(f"/{FIRST}", first),
    *(Route(f"/{entry.path}", page) for entry in PAGES if entry.path != FIRST),
]
