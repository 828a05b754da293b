"""The text of a model with a tower beside it, held to transformers' own class of the same config."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import prod
from typing import Any

import torch
import transformers

from calc.architectures import from_config
from calc.quantities.flops import forward
from calc.quantities.kv_cache import kv_cache
from calc.quantities.parameters import parameter_shapes
from calc.spec import ModelSpec
from calc.spec.load import Load
from harness.counter import count
from tests.architectures import their_models
from tests.architectures.renaming import compare

BATCH, SEQ = 2, 11


def hold_text(
    model: Any,
    model_type: str,
    config: dict[str, Any],
    step: Callable[[ModelSpec], Load],
    visited_only: Callable[[int, Any, int], int] = lambda counted, model, tokens: counted,
) -> None:
    """Hold parameters, FLOPs of a text, bytes of its cache and FLOPs of one more token to those of `model`.

    step: of a description, the load of that token, with what the tower reads, which costs nothing then. visited_only:
    (FLOPs counted, model, tokens) -> without what transformers runs beyond the experts that tokens visit.
    """
    theirs = {path: parameter.numel() for path, parameter in model.named_parameters()}
    tokens = torch.ones(BATCH, SEQ, dtype=torch.long)
    cache = transformers.DynamicCache(config=model.config.get_text_config())
    with torch.no_grad():
        whole = count(lambda: model(tokens, past_key_values=cache, use_cache=True))
        held = their_models.held(cache)
        one = count(lambda: model(tokens[:, :1], past_key_values=cache, use_cache=True))
    saved = json.loads(model.config.to_json_string(use_diff=False))
    # The config as people write it; then as transformers saves it, all defaults written.
    for raw in ({"model_type": model_type, **config}, saved):
        spec = from_config(raw)
        ours = {path: prod(shape) for path, shape in parameter_shapes(spec).items()}
        assert compare(theirs, ours, model_type) == {}
        assert forward(spec, Load(batch=BATCH, seq=SEQ)).total == visited_only(whole, model, BATCH * SEQ)
        assert forward(spec, step(spec)).total == visited_only(one, model, BATCH)
        assert kv_cache(spec, BATCH, SEQ, "fp32", "cache").total_bytes == held
