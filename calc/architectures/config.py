"""Reading a Hugging Face config.json without guessing.

An absent key, a `null` and a value are three different things. Each importer says what an absent key and a null mean in
its family; where it says nothing, that case is refused. Defaults that were used are kept in `notes`.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any, Literal, TypeVar

from calc.architectures.aliases import ALIASES, OLDER_WORDS, names_of
from calc.errors import Refused, show
from calc.spec.assumption import DefaultTaken
from calc.spec.fields import MAX_LAYERS, MAX_SIZE

REFUSE: Any = type("Refuse", (), {"__repr__": lambda self: "REFUSE"})()
T = TypeVar("T")
Tying = Literal["transformers", "checkpoint"]


class Config:
    """One config.json (an object already decoded from JSON), read key by key.

    Every reading method takes one key, or several names of the same key; the second names that the family's class maps
    to it count as well (see `aliases.py`), and two that are both given must agree. `absent` is the value when no name
    is there, `null` the value when it is null; both are refused unless given.
    family: the `model_type`, and the section of its config, whose second names are meant.
    """

    def __init__(
        self, raw: dict[str, Any], where: str = "", tying: Tying = "transformers", family: str | None = None
    ) -> None:
        self.raw = raw
        self.where = where
        self.tying: Tying = tying
        self.family = str(raw.get("model_type")) if family is None else family
        self.notes: list[str | DefaultTaken] = []
        self._aliases = ALIASES.get(self.family, {})
        self.read_keys: set[str] = set()
        self.absent: dict[str, Any] = {}
        self.sections: list[Config] = []

    def size(self, *names: str, absent: Any = REFUSE, null: Any = REFUSE, limit: int = MAX_SIZE) -> Any:
        """A whole number from 1 to `limit`."""

        def read(value: Any) -> int:
            if type(value) is int and 1 <= value <= limit:
                return value
            raise ValueError(f"a whole number from 1 to {limit}")

        return self._read(names, absent, null, read)

    def count(self, *names: str, absent: Any = REFUSE, null: Any = REFUSE) -> Any:
        """A whole number from 0 on: a size that may be missing altogether (shared experts, leading dense layers)."""

        def read(value: Any) -> int:
            if type(value) is int and 0 <= value <= MAX_SIZE:
                return value
            raise ValueError(f"a whole number from 0 to {MAX_SIZE}")

        return self._read(names, absent, null, read)

    def layers(self, *names: str) -> int:
        """The number of layers."""
        return self.size(*names, limit=MAX_LAYERS)

    def flag(self, *names: str, absent: Any = REFUSE, null: Any = REFUSE) -> Any:
        """true or false."""

        def read(value: Any) -> bool:
            if isinstance(value, bool):
                return value
            raise ValueError("true or false")

        return self._read(names, absent, null, read)

    def number(self, *names: str, absent: Any = REFUSE, null: Any = REFUSE) -> Any:
        """A finite number."""

        def read(value: Any) -> float:
            if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e300:
                return float(value)
            raise ValueError("a finite number")

        return self._read(names, absent, null, read)

    def choice(self, *names: str, among: dict[str, T], absent: Any = REFUSE, null: Any = REFUSE) -> T:
        """One of the words in `among`, returned as what it stands for there."""

        def read(value: Any) -> T:
            if isinstance(value, str) and value in among:
                return among[value]
            raise ValueError(f"one of {', '.join(among)}")

        return self._read(names, absent, null, read)

    def words(self, *names: str, among: tuple[str, ...], length: int, absent: Any = REFUSE, null: Any = REFUSE) -> Any:
        """A list of exactly `length` words out of `among`, one a layer; older words of `OLDER_WORDS` too."""

        def read(value: Any) -> tuple[str, ...]:
            if isinstance(value, list) and len(value) == length and all(isinstance(v, str) for v in value):
                words = tuple(v if v in among else OLDER_WORDS.get(v, v) for v in map(str, value))
                if all(word in among for word in words):
                    return words
            raise ValueError(f"a list of {length} words out of {', '.join(among)}")

        return self._read(names, absent, null, read)

    def numbers(self, *names: str, length: int | None = None, absent: Any = REFUSE, null: Any = REFUSE) -> Any:
        """A list of whole numbers from 0 on, of exactly `length` where that is given."""

        def read(value: Any) -> tuple[int, ...]:
            if (
                isinstance(value, list)
                and (length is None or len(value) == length)
                and all(type(v) is int and 0 <= v <= MAX_SIZE for v in value)
            ):
                return tuple(value)
            raise ValueError(f"a list of {'' if length is None else f'{length} '}whole numbers")

        return self._read(names, absent, null, read)

    def number_lists(self, *names: str, absent: Any = REFUSE, null: Any = REFUSE) -> Any:
        """A list of lists of whole numbers above 0, none of them empty."""

        def read(value: Any) -> tuple[tuple[int, ...], ...]:
            lists = isinstance(value, list) and all(isinstance(each, list) and each for each in value)
            if lists and all(type(v) is int and 0 < v <= MAX_SIZE for each in value for v in each):
                return tuple(tuple(each) for each in value)
            raise ValueError("a list of lists of whole numbers above 0")

        return self._read(names, absent, null, read)

    def factors(self, *names: str, absent: Any = REFUSE, null: Any = REFUSE) -> Any:
        """A list of finite numbers above 0."""

        def read(value: Any) -> tuple[float, ...]:
            if isinstance(value, list) and value and all(type(v) in (int, float) and 0 < v < inf for v in value):
                return tuple(float(v) for v in value)
            raise ValueError("a list of numbers above 0")

        return self._read(names, absent, null, read)

    def section(self, *names: str, absent: Any = REFUSE, null: Any = REFUSE) -> Any:
        """A nested object, as a Config of its own that writes into the same notes."""

        def read(value: Any) -> Config:
            if isinstance(value, dict):
                inner = Config(value, f"{self.where}{names[0]}.", self.tying, f"{self.family}.{names[0]}")
                inner.notes = self.notes
                self.sections.append(inner)
                return inner
            raise ValueError("an object")

        return self._read(names, absent, null, read)

    def architecture(self, among: Mapping[str, T], usual: str) -> T:
        """What the class that `architectures` names stands for in `among`; `usual` where it names none, with a note.

        Letters' case and underscores do not count: older code wrote LLaMAForCausalLM, MPTForCausalLM.
        Errors: Refused for a class that is not in `among`, and for several classes.
        """
        known = {_plain(name): kind for name, kind in among.items()}
        named = self.named_class()
        if named is None:
            self.notes.append(f"{self.where}architectures names no class: counted as {usual}")
        elif _plain(named) not in known:
            raise Refused(f"{self.where}architectures", f"one of {', '.join(among)}", named)
        return known[_plain(named or usual)]

    def named_class(self) -> str | None:
        """The one class that `architectures` names; None where it is absent, null or empty."""
        self.read_keys.add("architectures")
        named = self.raw.get("architectures")
        if named is None or named == []:
            return None
        if not isinstance(named, list) or len(named) != 1 or not isinstance(named[0], str):
            found = f"a list of {show(named[0])}" if isinstance(named, list) and len(named) == 1 else show(named)
            raise Refused(f"{self.where}architectures", "a list of one class's name", found)
        return named[0]

    def labels(self, absent: int = 2) -> int:
        """How many classes a classifier tells apart: the entries of id2label, else num_labels."""

        def read(value: Any) -> int:
            if isinstance(value, dict) and value:
                return len(value)
            raise ValueError("an object with an entry for each class")

        named = self._read(("id2label",), None, None, read)
        if not named:
            return self.size("num_labels", absent=absent)
        # No default is used where id2label tells the number, so nothing is noted.
        number = self.size("num_labels", absent=None, null=None)
        if number not in (None, named):
            raise Refused(f"{self.where}num_labels", f"as many as id2label has, {named}", number)
        return named

    def only(self, name: str, *allowed: Any, why: str) -> None:
        """Refuse a value of `name` that this importer does not know how to count."""
        for key in names_of(name, self._aliases):
            self.read_keys.add(key)
            value = self.raw.get(key, allowed[0])
            if not any(value is ok or (type(value) is type(ok) and value == ok) for ok in allowed):
                raise Refused(self.where + key, f"{' or '.join(map(show, allowed))} ({why})", value)

    def under_own_name(self, name: str, derives: str) -> None:
        """Refuse a second name alone, where the class derives `derives` before it lets second names count."""
        second = next((key for key in names_of(name, self._aliases)[1:] if key in self.raw), None)
        if second is not None and name not in self.raw:
            raise Refused(
                self.where + second, f"its own name, {name}, since {derives} follows from it", "a second name"
            )

    def multiple(self, name: str, value: int, of: str, divisor: int) -> int:
        """`value / divisor`, refused where it leaves a rest."""
        if value % divisor:
            raise Refused(self.where + name, f"a multiple of {of} = {divisor}", value)
        return value // divisor

    def _read(self, names: tuple[str, ...], absent: Any, null: Any, read: Any) -> Any:
        names = tuple(dict.fromkeys(each for name in names for each in names_of(name, self._aliases)))
        self.read_keys.update(names)
        present = [name for name in names if name in self.raw]
        if not present:
            self.absent[names[0]] = absent
            if absent is REFUSE:
                raise Refused(self.where + names[0], self._expectation(read), "nothing")
            return self._assume(names[0], absent)
        name = present[0]
        for other in present[1:]:
            if type(self.raw[other]) is not type(self.raw[name]) or self.raw[other] != self.raw[name]:
                raise Refused(self.where + other, f"the same as {name} = {show(self.raw[name])}", self.raw[other])
        value = self.raw[name]
        if value is None:
            if null is REFUSE:
                raise Refused(self.where + name, self._expectation(read), "null")
            return null
        try:
            return read(value)
        except ValueError as error:
            raise Refused(self.where + name, str(error), show(value)) from None

    def _assume(self, name: str, value: Any) -> Any:
        if isinstance(value, int) and not isinstance(value, bool):
            self.notes.append(DefaultTaken(key=f"{self.where}{name}", value=value))
        return value

    @staticmethod
    def _expectation(read: Any) -> str:
        """What a reader accepts, asked by handing it something that no reader does."""
        try:
            read(object())
        except ValueError as error:
            return str(error)
        raise AssertionError("a reader accepted an object()")


def _plain(name: str) -> str:
    return name.replace("_", "").lower()
