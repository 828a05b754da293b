"""For the site: what a document links to outside of `docs` is named, since no page of the site stands for it."""

from __future__ import annotations

import re
from typing import Any


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """`[text](../path)` becomes the text with the path behind it; within `docs/reference` such links stay inside."""
    if page.file.src_uri.startswith("reference/"):
        return markdown
    return re.sub(r"\[([^\]]+)\]\(\.\./([^)#]+)[^)]*\)", r"\1 (`\2`)", markdown)
