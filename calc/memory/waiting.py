"""What layers keep and have wait on the host: which of them, and what of it is on the GPU all the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from calc.sizes import Size, either, is_array, is_exactly, largest, minimum
from calc.spec import ModelSpec


class Kind(NamedTuple):
    """Layers that keep as much: their group, how many of it the model has, and a stage, and bytes of one that may
    leave. Of several kinds of one group, those at its start come first."""

    group: str
    count: Size
    here: Size
    size: Size


class Leaving(NamedTuple):
    """All layers of a stage and how many of them leave, the first; None: all but the last, of the group `end`.
    order: the group of each layer, where it is asked for."""

    kinds: Sequence[Kind]
    end: str
    part: int | None
    order: Sequence[str]

    @property
    def moved(self) -> Size:
        """What waits on the host, every tensor once."""
        return sum((waits * size for waits, size in self._each()), start=0)

    @property
    def on_its_way(self) -> Size:
        """The most of that which is on its way, and on the GPU too, beside the layer at work: what one layer keeps."""
        return minimum(self.moved, largest(if_any(waits, size) for waits, size in self._each()))

    @property
    def beyond_the_last(self) -> Size:
        """What is on the GPU beside what stays where no more layers are there at once than stay, since those that
        compute wait for those that leave: of so many one after the other, how much more than the last keep the most."""
        if self.part is None:
            return largest(kind.size for kind in self.kinds) - self.kinds[self._last].size
        kinds = self._in_order()
        stay = len(kinds) - self.part
        at_once = {tuple(sorted(kinds[first : first + stay])) for first in range(self.part + 1)}
        sums = [sum((self.kinds[place].size for place in places), start=0) for places in at_once]
        return largest(sums) - sum((self.kinds[place].size for place in kinds[-stay:]), start=0)

    @property
    def _last(self) -> int:
        """The place of the last layer's kind."""
        return max(place for place, kind in enumerate(self.kinds) if kind.group == self.end)

    def _in_order(self) -> list[int]:
        """The place of each layer's kind, from the first layer to the last."""
        places = [(kind.group, place) for place, kind in enumerate(self.kinds) for _ in range(kind.count)]
        of_group = {name: iter([place for group, place in places if group == name]) for name in set(self.order)}
        return [next(of_group[group]) for group in self.order]

    def _each(self) -> Iterator[tuple[Size, Size]]:
        """(how many layers leave, what one of them keeps), by kind."""
        left = dict(Counter(self.order[: self.part]))
        for place, kind in enumerate(self.kinds):
            waits = kind.here - (place == self._last)
            if self.part is not None:
                waits = minimum(kind.here, left.get(kind.group, 0))
                left[kind.group] = left.get(kind.group, 0) - waits
            if not is_exactly(waits, 0):
                yield waits, kind.size


def order_of(spec: ModelSpec, part: Size | None) -> Sequence[str]:
    """The group of each layer, where a part of them is asked for, of numbers that are ints; else none."""
    if part is None:
        return ()
    return spec.schedule or [group.name for group in spec.layers for _ in range(group.count)]


def if_any(layers: Size, size: Size) -> Size:
    """What there is of a kind of layers only on the stages, of a column of them, that have some."""
    return either(layers > 0, size) if is_array(layers) else size
