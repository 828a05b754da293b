"""Messages on stderr about what was asked."""

from __future__ import annotations

from collections.abc import Collection

import click
from click.core import ParameterSource

from calc.query import Query

_QUERY = frozenset(Query.__dataclass_fields__)


def unused(uses: Collection[str], asked: str) -> None:
    """Name the options of a Query that were given on the command line though `asked` does not depend on them.

    uses: the fields of a Query that matter. An option set to "none" or 0 asks for nothing and is passed over.
    """
    context = click.get_current_context()
    for option in context.command.params:
        name = option.name or ""
        given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if given and name in _QUERY and name not in uses and context.params.get(name) not in ("none", 0):
            click.echo(f"note: {option.opts[0]} changes nothing in {asked}", err=True)
