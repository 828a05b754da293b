"""The front of a table's rows: every column becomes a vector."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from calc.errors import Refused
from calc.spec.fields import Dim, Node


class Features(Node):
    """Feature tokenizer (FT-Transformer: Gorishniy et al. 2021, arXiv:2106.11959, section 3.3).

    A number scales a vector of its column; a category is looked up; a vector of the column is added to either.
    n_numbers: columns of numbers. categories: how many values each column of categories has.
    n_special: learned vectors beside the columns (the class token).
    """

    kind: Literal["features"] = "features"
    n_numbers: Dim | None = None
    categories: tuple[int, ...] = ()
    n_special: int = Field(default=1, ge=0, le=2**16)

    @model_validator(mode="after")
    def _columns(self) -> Self:
        if not all(0 < values <= 2**31 for values in self.categories):
            raise Refused("categories", "a whole number above 0 for each column", str(self.categories)[:60])
        if self.n_numbers is None and not self.categories:
            raise Refused("n_numbers", "some columns, of numbers or of categories", None)
        return self
