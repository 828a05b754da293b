"""Tables of places and segments that all layers of a block of Funnel Transformer share."""

from __future__ import annotations

from dataclasses import dataclass

from calc.blocks.surroundings import Halvings
from calc.sizes import Size
from calc.spec import FunnelAttention
from calc.spec.load import Load
from calc.trace.tape import Storage, Tape


@dataclass(frozen=True, slots=True)
class Tables:
    """name: of the layers that share sinusoids; of_pairs, of_queries, of_keys: of those that share tables of pairs, and
    of places of queries and of keys. d_model: width of the sinusoids. distances: how many there are between queries and
    keys. Elements, of the storages that the tables are parts of: segments: whether two vectors are of one; apart: 0 at
    pairs with the first vector, or None; queries, keys: of each of two tables of places (factorized)."""

    name: str
    of_pairs: str
    of_queries: str
    of_keys: str
    d_model: Size
    distances: Size
    segments: Size
    apart: Size | None
    queries: Size
    keys: Size

    def keep_places(self, tape: Tape, keys: Size) -> None:
        """Sines and cosines: those of queries are multiplied with; those of `keys` keys are a factor of a product,
        which autocast copies."""
        s = tape.settings
        for name in ("sines", "cosines"):
            tape.keep_common(f"{name} of queries of {self.of_queries}", name, self.queries, s.stream)
            if s.autocast:
                tape.keep(Storage(keys * self.d_model, s.dtype, False, "none"), f"{name} of keys")
            else:
                tape.keep_common(f"{name} of keys of {self.of_keys}", name, self.keys, s.stream)

    def keep_apart(self, tape: Tape) -> None:
        """What pairs with the first vector are multiplied with."""
        if self.apart is not None:
            tape.keep_common(f"first vector of {self.of_pairs}", "first vector", self.apart, tape.settings.stream)

    def keep_segments(self, tape: Tape) -> None:
        """Whether two vectors are of one segment."""
        tape.keep_common(f"segments of {self.of_pairs}", "segments", self.segments, "bool")
        self.keep_apart(tape)


def tables(spec: FunnelAttention, d_model: Size, load: Load, keys: Size, stage: Halvings | None) -> Tables:
    """Those of layers whose seq queries meet `keys` keys, as the halvings so far have left them.

    A halving cuts them out of longer ones: where the first vector stands apart, out of copies with one place more than
    there were vectors, and else out of the very first.
    """
    before = None if stage is None or stage.before is None else stage.before[1].seq
    ahead = spec.unhalved and before is not None
    name = "all" if stage is None else stage.name
    distances = 2 * load.seq + (keys if ahead else 0)
    if before is None or stage is None or not spec.first_apart:
        first = load.seq if stage is None else stage.whole[1].seq
        shared = name if before is None else "all"
        square = first * first
        apart = square if spec.first_apart else None
        places = first * d_model
        own = f"{name}, ahead" if ahead else name
        return Tables(own, shared, shared, shared, d_model, distances, load.batch * square, apart, places, places)
    longer = (before + 1) * d_model
    if not ahead:
        square = load.seq * (before + 1)
        return Tables(name, name, name, name, d_model, distances, load.batch * square, square, longer, longer)
    square, earlier = (before + 1) * before, stage.earlier
    of_keys = before if earlier is None or earlier.before is None else earlier.before[1].seq + 1
    key_name = "all" if earlier is None else earlier.name
    own = f"{name}, ahead"
    return Tables(own, own, name, key_name, d_model, distances, load.batch * square, square, longer, of_keys * d_model)
