"""Mixed-precision recipes: the number formats of weights, gradients and products in training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from calc.checks import word
from calc.errors import Refused


@dataclass(frozen=True, slots=True)
class Recipe:
    """Number formats of one way to train.

    weights: of the weights that are kept, and gathered: of those a layer computes with, where the two differ.
    gradients: that are kept, and summed over micro-batches; reduced: in which ranks sum them, where each casts its part
    back, None for `gradients`. master: of a second, wider copy of the weights beside the optimizer; None where there is
    none. compute: of activations. autocast: torch.autocast casts, operation by operation.
    inputs: what matrices' inputs are kept in, None for `compute`. products: what products of weights are computed in,
    None for `inputs` or `compute`; wgrad: those for the gradients of weights, None for as all others.
    """

    name: str
    meaning: str
    source: str
    weights: str
    gradients: str
    compute: str
    master: str | None = None
    autocast: bool = False
    gathered: str | None = None
    inputs: str | None = None
    products: str | None = None
    wgrad: str | None = None
    reduced: str | None = None

    @property
    def updated(self) -> str:
        """The format of what the optimizer updates: of the wider copy of weights where there is one."""
        return self.master or self.weights

    @property
    def multiplied(self) -> str:
        """The format in which products of weights are computed."""
        return self.products or self.inputs or self.compute

    @property
    def summed(self) -> str:
        """The format in which ranks sum gradients."""
        return self.reduced or self.gradients


RECIPES = (
    Recipe("fp32", "everything in fp32", "PyTorch without casts", "fp32", "fp32", "fp32"),
    Recipe(
        "bf16-mixed",
        "weights and gradients in fp32, products in bf16 under torch.autocast",
        "PyTorch documentation, torch.amp",
        "fp32",
        "fp32",
        "bf16",
        autocast=True,
    ),
    Recipe(
        "bf16",
        "weights, gradients and activations in bf16; the optimizer keeps a format of its own",
        "model.to(torch.bfloat16)",
        "bf16",
        "bf16",
        "bf16",
    ),
    Recipe(
        "bf16-master",
        "weights in bf16, gradients summed in fp32, a copy of the weights in fp32: 18 bytes a parameter with Adam",
        "Megatron-LM's theoretical_memory_usage.py: 18 bytes a parameter, 6 + 12 / dp with its distributed optimizer",
        "bf16",
        "fp32",
        "bf16",
        master="fp32",
    ),
    Recipe(
        "bf16-zero",
        "weights and gradients in bf16, a copy of the weights in fp32: 16 bytes a parameter with Adam",
        "Rajbhandari et al. 2019 (arXiv:1910.02054, section 3.1), as DeepSpeed keeps them",
        "bf16",
        "bf16",
        "bf16",
        master="fp32",
    ),
    Recipe(
        "bf16-fsdp",
        "weights and gradients in fp32, cast to bf16 when a layer is gathered; no autocast",
        "FSDP2's MixedPrecisionPolicy(param_dtype=bfloat16, reduce_dtype=float32), as torchtitan sets it",
        "fp32",
        "fp32",
        "bf16",
        gathered="bf16",
    ),
    Recipe(
        "fp8",
        "as bf16-master, with the inputs of matrices kept in fp8, but for routers' and the head's",
        "Micikevicius et al. 2022 (arXiv:2209.05433); NVIDIA Transformer Engine's linear layer",
        "bf16",
        "fp32",
        "bf16",
        master="fp32",
        inputs="fp8",
    ),
    Recipe(
        "fp8-fsdp",
        "as bf16-fsdp, with products in fp8 whose factors are cast when they are needed",
        "torchao.float8 under FSDP2 as torchtitan sets it (arXiv:2410.06511, section 2.2.4)",
        "fp32",
        "fp32",
        "bf16",
        gathered="bf16",
        products="fp8",
    ),
    Recipe(
        "nvfp4",
        "as bf16-master, with products in fp4 whose factors have a scale each 16 elements",
        "NVIDIA 2025, Pretraining Large Language Models with NVFP4 (arXiv:2509.25149)",
        "bf16",
        "fp32",
        "bf16",
        master="fp32",
        inputs="fp8",
        products="fp4",
    ),
    Recipe(
        "fp16-mixed",
        "weights and gradients in fp32, products in fp16 under torch.autocast, the loss scaled",
        "Micikevicius et al. 2017 (arXiv:1710.03740); PyTorch documentation, torch.amp.GradScaler",
        "fp32",
        "fp32",
        "fp16",
        autocast=True,
    ),
    Recipe(
        "int8",
        "weights in fp32, products in int8 whose factors are quantized when needed, but for weights' gradients",
        "Google's Accurate Quantized Training, google/aqt: most products in int8, 20 to 40 % faster steps",
        "fp32",
        "fp32",
        "bf16",
        gathered="bf16",
        products="int8",
        wgrad="bf16",
    ),
)


GRADIENT_DTYPES = ("fp32", "bf16")
"""Formats in which stacks sum gradients."""
RECIPE_BY_NAME = {recipe.name: recipe for recipe in RECIPES}


def recipe(name: str) -> Recipe:
    """The recipe called `name`. Errors: Refused, with the known names."""
    word("recipe", name, tuple(RECIPE_BY_NAME))
    return RECIPE_BY_NAME[name]


@lru_cache(maxsize=64)
def summed_in(name: str, dtype: str | None) -> Recipe:
    """The recipe called `name`, its gradients summed in `dtype`; None: as the recipe has it.

    Beside a wider copy of the weights, one buffer is what micro-batches and ranks are summed in (Megatron-Core's
    main_grad; DeepSpeed's grad_accum_dtype and communication_data_type together). Where layers are gathered narrower
    than weights are kept, it is what ranks sum in, and each casts its part back (FSDP2's reduce_dtype).
    Errors: Refused for an unknown recipe, and for another format than the recipe's where PyTorch makes gradients as
    wide as weights.
    """
    how = recipe(name)
    if dtype is None or dtype == how.summed:
        return how
    if how.gathered is not None:
        return replace(how, reduced=dtype)
    if how.master is not None:
        return replace(how, gradients=dtype)
    others = [each.name for each in RECIPES if each.gathered is not None or each.master is not None]
    expected = f"{how.summed} beside the recipe {name}, whose gradients are as wide as weights; or one of the recipes "
    raise Refused("gradient_dtype", expected + ", ".join(others), dtype)


def recipe_for(words: Mapping[str, Any], field: str = "dtype") -> dict[str, Any]:
    """The words of a run that trains, in which `dtype` may stand for `recipe`. field: what it is called.

    Errors: Refused where both are said, and for a format that is no recipe.
    """
    given = dict(words)
    name = given.pop("dtype", None)
    if name is None:
        return given
    if given.get("recipe") is not None:
        raise Refused(field, f"{field} or {field.replace('dtype', 'recipe')}, which mean the same in training", "both")
    if name not in RECIPE_BY_NAME:
        why = "; with fp16, small gradients vanish, and how its loss is scaled is not described" * (name == "fp16")
        raise Refused(field, f"in training a recipe, one of {', '.join(RECIPE_BY_NAME)}{why}", name)
    return given | {"recipe": name}
