"""What every description shares: immutable, strict, closed to unknown fields, and its sizes known by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from calc.errors import Refused, did_you_mean, show
from calc.sizes import Size

DeviceKind = Literal["cuda", "cpu"]
"""What a program runs on, as PyTorch names it."""
Graphs = Literal["none", "routers", "attention", "step"]
"""What CUDA graphs launch of a step of training (`calc.spec.run.execution`)."""
MAX_SIZE = 2**31
MAX_LAYERS = 10**5
NONE_BY_FALSE = BeforeValidator(lambda value: None if value is False else value)
"""`false` says that there is none: TOML has no null."""


class _IsSize:
    """Marks a field as a size: a number that may be read as a symbol or an array."""


_SIZE = _IsSize()
# strict: True and 1.0 are not sizes.
Dim = Annotated[int, Field(strict=True, gt=0, le=MAX_SIZE), _SIZE]
Count = Annotated[int, Field(strict=True, gt=0, le=MAX_LAYERS), _SIZE]


def _holds_size(annotation: Any) -> bool:
    """Whether `Dim` or `Count` stands in an annotation such as `Dim | None`."""
    return _SIZE in getattr(annotation, "__metadata__", ()) or any(map(_holds_size, get_args(annotation)))


class Node(BaseModel):
    """A frozen piece of a model's description."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)
    symbols: ClassVar[dict[str, str]] = {}
    """Field name -> symbol name, where the two differ."""

    def group(self, outer: str) -> str:
        """The name of the group of layers that this node's sizes belong to; `outer` is that of the node around it."""
        return outer

    @classmethod
    def size_fields(cls) -> tuple[str, ...]:
        """The fields of this node that are sizes."""
        found = cls.__dict__.get("_size_fields")
        if found is None:
            found = tuple(n for n, f in cls.model_fields.items() if _SIZE in f.metadata or _holds_size(f.annotation))
            cls._size_fields = found
        return found


def map_sizes(node: Any, change: Callable[[str, str, Size], Size], group: str = "") -> Any:
    """A copy of `node` with every size replaced by `change(symbol name, layer group, value)`; None stays None."""
    update: dict[str, Any] = {}
    group = node.group(group)
    sizes = node.size_fields()
    for name in type(node).model_fields:
        value = getattr(node, name)
        if name in sizes:
            if value is not None:
                update[name] = change(node.symbols.get(name, name), group, value)
        elif isinstance(value, Node):
            update[name] = map_sizes(value, change, group)
        elif isinstance(value, tuple) and value and isinstance(value[0], Node):
            update[name] = tuple(map_sizes(child, change, group) for child in value)
    return node.model_copy(update=update)


def refuse(error: ValidationError, where: str = "") -> Refused:
    """The first fault of a pydantic validation as one line."""
    faults = error.errors(include_url=False)
    # A misspelt field is also a missing one; the spelling is the more useful of the two.
    fault = next((fault for fault in faults if fault["type"] == "extra_forbidden"), faults[0])
    field = ".".join(str(part) for part in fault["loc"]) or where or "spec"
    if where and field != where:
        field = f"{where}: {field}"
    cause = fault.get("ctx", {}).get("error")
    if isinstance(cause, Refused):
        # A file's reader looks for the place; a config's importer has named what its reader wrote already.
        place = ".".join([*map(str, fault["loc"]), cause.field])
        return Refused(f"{where}: {place}", cause.expected, cause.found) if where else cause
    found = "nothing" if fault["type"] == "missing" else show(fault["input"])
    message = fault["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
    expected = {"missing": "a value", "extra_forbidden": "no such field"}.get(fault["type"], message)
    if fault["type"] == "extra_forbidden":
        expected += did_you_mean(str(fault["loc"][-1]), _known_beside(error, fault["loc"][:-1]))
    if fault["type"].startswith("union_tag"):
        tags = fault.get("ctx", {})
        expected, found = f"one of {tags.get('expected_tags', 'the known kinds')}", f"kind {tags.get('tag', 'missing')}"
    return Refused(field, expected, found)


def _known_beside(error: ValidationError, place: tuple[int | str, ...]) -> list[str]:
    """Fields that may stand at `place`: those that are missing there, and of a whole description, whose name pydantic
    tells, every one."""
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    missing = [str(each["loc"][-1]) for each in faults if each["type"] == "missing" and each["loc"][:-1] == place]
    whole = next((kind for kind in _kinds(Node) if kind.__name__ == error.title), None)
    return missing if place or whole is None else [*whole.model_fields]


def _kinds(node: type[Node]) -> Iterator[type[Node]]:
    """Every kind of node below `node`."""
    for kind in node.__subclasses__():
        yield kind
        yield from _kinds(kind)
