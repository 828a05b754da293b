"""The one error a user of Envelope meets: an input that is refused."""

from __future__ import annotations


class Refused(ValueError):
    """An input that cannot be read without guessing.

    Its text is one line that names the field, what was expected and what was found.
    """

    def __init__(self, field: str, expected: str, found: object) -> None:
        self.field = field
        self.expected = expected
        self.found = found if isinstance(found, str) else show(found)
        super().__init__(printable(f"{field}: expected {expected}, found {self.found}"))


def printable(text: str) -> str:
    """`text` with line breaks and control characters escaped, so that a hostile name cannot break a line."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


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
    return text if len(text) <= limit else text[: limit - 1] + "…"
