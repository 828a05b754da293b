"""Tokens that something guesses ahead of a server, as options say it."""

from __future__ import annotations

from typing import Any

from calc.errors import Refused
from calc.serve.service import Guessing
from calc.spec import ModelSpec


def guessing(model: ModelSpec, given: dict[str, Any]) -> Guessing:
    """What --guess, --acceptance and --guess-cost say, of a command that has them; nothing where none is given. A guess
    costs a pass over one layer unless something else is said.

    Errors: Refused for a chance without guesses, and for guesses without one: no chance is usual.
    """
    tokens, chance, cost = given["guess"], given["acceptance"], given.get("guess_cost")
    if tokens is None:
        for name, value in (("--acceptance", chance), ("--guess-cost", cost)):
            if value is not None:
                raise Refused(name, "none without --guess", value)
        return Guessing()
    if chance is None:
        raise Refused("--acceptance", "the chance that a guess is right, from 0 to 1, beside --guess", "none")
    return Guessing(tokens, chance, 1 / float(model.n_layers) if cost is None else cost)
