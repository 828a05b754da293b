"""The one error a user of Envelope meets: an input that is refused."""

from __future__ import annotations

from collections.abc import Iterable

LONGEST = 1000
"""Characters of a name or of what was found that a message repeats; a cell of a table may hold millions."""


class Refused(ValueError):
    """An input that cannot be read without guessing.

    Its text is one line that names the field, what was expected and what was found.
    """

    def __init__(self, field: str, expected: str, found: object) -> None:
        self.field = shortened(field, LONGEST)
        self.expected = expected
        self.found = shortened(found, LONGEST) if isinstance(found, str) else show(found)
        super().__init__(printable(f"{self.field}: expected {expected}, found {self.found}"))

    def __reduce__(self) -> tuple[type[Refused], tuple[str, str, str]]:
        """Another process that is handed this one says the same."""
        return type(self), (self.field, self.expected, self.found)


def printable(text: str) -> str:
    """`text` with line breaks and control characters escaped, so that a hostile name cannot break a line."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint in brackets at those of `known` that look like `word`; nothing where none does."""
    from difflib import get_close_matches

    plain = {name.lower().replace("-", "").replace("_", "").replace(".", ""): name for name in known}
    close = get_close_matches(word.lower()[:60].replace("-", "").replace("_", ""), plain, n=3, cutoff=0.6)
    close += [key for key in plain if len(word) > 3 and key.startswith(word.lower()) and key not in close]
    return f" (did you mean {', '.join(plain[key] for key in close[:3])}?)" if close else ""


def show(value: object, limit: int = 60) -> str:
    """`value` in a few words."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (dict, list)):
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    # An int of thousands of digits refuses to become text at all (sys.set_int_max_str_digits).
    text = f"an integer of {value.bit_length()} bits" if isinstance(value, int) and abs(value) >= 2**64 else repr(value)
    return shortened(text, limit)


def shortened(text: str, limit: int) -> str:
    """`text`, or as much of its beginning as `limit` characters hold."""
    return text if len(text) <= limit else text[: limit - 1] + "…"
