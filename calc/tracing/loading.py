"""What `--traced` reads: a config whose class transformers has, or a module of one's own in a Python file."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

from calc.architectures.models import config_of
from calc.errors import Refused
from calc.spec.traced import Traced
from calc.tracing.building import needed, one_line

OWN = re.compile(r"(.+\.py):([A-Za-z_]\w*)")


def load_traced(reference: str, *, run_code: bool = False) -> Traced:
    """The model that `reference` names, as PyTorch runs it.

    reference: as for `load_model`, a config.json of any `model_type` that transformers has; or FILE.py:FUNCTION, which
        returns a module and its example inputs (`calc.capture`). run_code: whether that file may be run.
    Errors: Refused for what cannot be found, built or traced, for a file that may not be run, and without the extra.
    """
    needed()
    if (own := OWN.fullmatch(reference)) is not None:
        return _own(Path(own[1]), own[2], run_code)
    if run_code:
        raise Refused("--run-code", "MODEL as FILE.py:FUNCTION beside it", reference)
    from calc.tracing.model import from_transformers

    return from_transformers(*config_of(reference))


def _own(path: Path, function: str, run_code: bool) -> Traced:
    """What a function of a user's file returns."""
    if not run_code:
        raise Refused("MODEL", "--run-code, which says that this file may be run", f"{path}:{function}")
    if not path.is_file():
        raise Refused("MODEL", "a Python file", str(path))
    try:
        made = runpy.run_path(str(path)).get(function)
    except Exception as error:
        raise Refused(str(path), "a file that runs", one_line(error)) from None
    if not callable(made):
        raise Refused(f"{path}:{function}", "a function", made)
    return _captured(made, path, function)


def _captured(made: Any, path: Path, function: str) -> Traced:
    from calc.tracing.capture import capture

    try:
        result = made()
    except Exception as error:
        raise Refused(f"{path}:{function}", "a function that runs without arguments", one_line(error)) from None
    if not isinstance(result, tuple) or len(result) != 2:
        raise Refused(f"{path}:{function}", "(module, example inputs)", type(result).__name__)
    return capture(*result, name=path.stem)
