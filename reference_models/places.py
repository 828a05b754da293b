"""What towers give, put in the places of tokens that stand for pictures or sounds."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

WORDS = {"image": "pictures", "sound": "sounds"}


def unchanged(x: Tensor) -> Tensor:
    """x, where no tower gives anything."""
    return x


def all_placed(x: Tensor, given: Sequence[tuple[Tensor | None, Tensor, str]]) -> Tensor:
    """x [batch, seq, d_model] with what each tower gave, in its places (see `placed`)."""
    for made, at, what in given:
        x = placed(x, made, at, what)
    return x


def placed(x: Tensor, given: Tensor | None, at: Tensor, what: str) -> Tensor:
    """x [batch, seq, d_model] with what a tower gave, [pieces, n, d_model], in the places where `at` is True.

    what: of which kind the pieces are. Errors: ValueError where the places are not as many as the vectors.
    """
    if given is None:
        raise ValueError(f"{what}s: expected {WORDS[what]} for the places in {what}_at, found none")
    vectors = given.shape[:-1].numel()
    if not at.is_meta and (places := int(at.sum())) != vectors:
        raise ValueError(f"{what}_at: expected {vectors} places, as many as the {WORDS[what]}' vectors, found {places}")
    return x.masked_scatter(at[..., None], given.to(x.dtype))
