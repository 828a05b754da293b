"""For the site: what a document links to outside of `docs` is named, since no page of the site stands for it."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Any


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """`[text](../path)` becomes the text with the path behind it, where so many `..` lead out of `docs`."""
    depth = len(PurePosixPath(page.file.src_uri).parts)
    return re.sub(rf"\[([^\]]+)\]\((?:\.\./){{{depth}}}([^)#]+)[^)]*\)", r"\1 (`\2`)", markdown)
