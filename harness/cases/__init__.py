"""What can be measured: one file a kind, and the registry of kinds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from calc.errors import Refused, did_you_mean
from calc.spec.fields import refuse
from harness.cases.attention import AttentionCase, DecodeAttentionCase
from harness.cases.case import Case, Ready
from harness.cases.collectives import CollectiveCase, ExchangeCase
from harness.cases.decoding import DecodeCase
from harness.cases.grouped import GroupedMatmulCase
from harness.cases.layer import LayerCase
from harness.cases.matmul import MatmulCase
from harness.cases.parallel import ParallelTrainingCase
from harness.cases.passes import PassCase
from harness.cases.scaled import ScaledMatmulCase
from harness.cases.training import TrainingCase
from harness.cases.whole_passes import ForwardCase, PrefillCase

KINDS: dict[str, type[Case]] = {
    case.kind: case
    for case in (
        MatmulCase,
        ScaledMatmulCase,
        GroupedMatmulCase,
        PassCase,
        AttentionCase,
        DecodeAttentionCase,
        LayerCase,
        ForwardCase,
        PrefillCase,
        DecodeCase,
        TrainingCase,
        CollectiveCase,
        ExchangeCase,
        ParallelTrainingCase,
    )
}
"""Kind -> the class of its cases."""

__all__ = ["KINDS", "Case", "Ready", "make"]


def make(kind: str, params: Mapping[str, Any]) -> Case:
    """The case of a kind with these parameters, as its `params` gives them and JSON keeps them.

    Errors: Refused, one line, for an unknown kind or parameter, and for a value that a case cannot have.
    """
    if kind not in KINDS:
        raise Refused("kind", f"one of {', '.join(KINDS)}{did_you_mean(kind, KINDS)}", kind)
    try:
        document = json.dumps(dict(params), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise Refused(kind, "parameters that JSON can hold", str(error)) from None
    try:
        return _reader(kind).validate_json(document)
    except ValidationError as error:
        raise refuse(error, kind) from None


@cache
def _reader(kind: str) -> TypeAdapter[Case]:
    return TypeAdapter(KINDS[kind])
