"""What a question says of all its plans, and can be of none: refused before a search."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calc.errors import Refused
from calc.memory.fp8_conditions import check_products, check_scaling, of_fp8_weights
from calc.memory.offload_conditions import of_activations_on_host, of_optimizer_on_host
from calc.memory.optimizer_conditions import of_precision_aware
from calc.spec import ModelSpec
from calc.spec.cluster import Cluster
from calc.spec.run import Run
from calc.time.step.timed_run import check_graphs

FORMATS = ("stack", "optimizer", "precision_aware", "gradient_dtype", "fp8_recipe", "fp8_param_gather")
"""Words that say number formats, or what they go with."""
LAUNCHED = ("execution", "graphs")
"""Words that say what launches kernels."""
HELD = ("checkpointing", "checkpoint_every", "recompute", "offload", "offload_fraction", "offload_layers")
"""Words of a plan that say what is kept, and where."""


def check_formats(
    spec: ModelSpec, cluster: Cluster, recipes: tuple[str, ...], words: Mapping[str, Any], fixed: Mapping[str, Any]
) -> None:
    """Errors: Refused for number formats of all plans that go with no recipe of theirs, or not with the stack."""
    said = _among(words, FORMATS)
    check_scaling(said.get("fp8_recipe"), fixed.get("recompute", ()))
    for recipe in recipes:
        run = Run(phase="training", recipe=recipe, cluster=cluster, **said)
        check_products(run)
        if run.fp8_param_gather:
            list(of_fp8_weights(spec, run))
        if run.precision_aware:
            list(of_precision_aware(run))


def check_fixed(spec: ModelSpec, recipes: tuple[str, ...], words: Mapping[str, Any], fixed: Mapping[str, Any]) -> None:
    """Errors: Refused for words that are fixed and go with none of the recipes, with the stack or with what else is
    said. What is not fixed is taken as it goes with them."""
    said = _among(words, (*FORMATS, *LAUNCHED)) | _among(fixed, HELD)
    its = Run(**_among(said, ("stack",))).stack
    if said.get("offload") == "activations" and its is not None and its.activations_on_host is not None:
        said = {"checkpointing": its.activations_on_host.checkpointing[0]} | said
    refused: list[Refused] = []
    for recipe in recipes:
        try:
            _check(spec, Run(phase="training", recipe=recipe, **said))
        except Refused as found:
            refused.append(found)
    if refused and len(refused) == len(recipes):
        raise refused[0]


def _check(spec: ModelSpec, run: Run) -> None:
    check_graphs(run)
    if run.offload == "activations":
        list(of_activations_on_host(spec, run))
    if run.offload == "optimizer":
        list(of_optimizer_on_host(run))


def _among(words: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: words[name] for name in names if name in words}
