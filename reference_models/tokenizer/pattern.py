r"""Where a text is cut before pairs are merged: no token ever spans a cut.

Both patterns are facts about published tokenizers:
gpt2: OpenAI's gpt-2 repository, src/encoder.py. Contractions are met in lower case alone, so "I'm" is cut as I + 'm
    and "I'M" as I + ' + M; its authors call that a slip in a comment there.
gpt4: OpenAI's tiktoken, tiktoken_ext/openai_public.py, cl100k_base, before it was rewritten for speed. Contractions in
    either case, one leading sign before letters, at most three digits together, line breaks after punctuation.
Which characters are letters is for the Unicode version of whoever cuts: `regex` may know scripts that the `tokenizers`
library takes for signs. They are written in \p classes, which Python's `re` does not know; `regex` does.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import regex

PATTERNS = {
    "gpt2": r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+""",
    "gpt4": r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"""
    r"""|\s*[\r\n]+|\s+(?!\S)|\s+""",
}
"""Name -> pattern."""


@cache
def _compiled(pattern: str) -> regex.Pattern[str]:
    import regex

    return regex.compile(pattern)


def pre_tokenize(text: str, pattern: str | None) -> list[str]:
    """The pieces of `text`, in order; together they are the text. pattern: None leaves it whole.

    What no alternative of a pattern meets becomes a piece of its own, as the `tokenizers` library's isolating split
    has it.
    """
    if pattern is None:
        return [text] if text else []
    pieces, end = [], 0
    for match in _compiled(pattern).finditer(text):
        if match.end() > match.start():
            pieces += [text[end : match.start()], match[0]]
            end = match.end()
    return [piece for piece in [*pieces, text[end:]] if piece]
