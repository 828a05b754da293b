"""A row of a table in, one vector a column out."""

from __future__ import annotations

from calc.blocks.linear import elementwise, gather
from calc.load import Load
from calc.op import Op, Part, Weight
from calc.sizes import Size
from calc.spec import Features


def features(spec: Features, vocab_size: Size, d_model: Size, load: Load) -> tuple[Part, Size]:
    """Rows [batch, columns] -> [batch, columns + n_special, d_model]: scaling and looking up are 0 FLOPs here."""
    body: list[Op] = []
    columns: Size = len(spec.categories)
    if spec.n_numbers is not None:
        columns = columns + spec.n_numbers
        shape = (spec.n_numbers, d_model)
        weights = tuple(Weight(f"numbers.{name}", shape, "embedding") for name in ("weight", "bias"))
        given = load.batch * spec.n_numbers
        body.append(elementwise("numbers", "embedding", "scale", given, given * d_model, weights=weights))
    if spec.categories:
        table = Weight("categories.weight", (sum(spec.categories), d_model), "embedding")
        bias = Weight("categories.bias", (len(spec.categories), d_model), "embedding")
        found = load.batch * len(spec.categories)
        body.append(gather("categories", "embedding", (table, bias), found, d_model))
    if spec.n_special:
        special = Weight("special.weight", (spec.n_special, d_model), "embedding")
        body.append(gather("special", "embedding", (special,), load.batch * spec.n_special, d_model))
    return Part("embedding", tuple(body)), columns + spec.n_special
