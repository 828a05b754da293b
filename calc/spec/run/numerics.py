"""The number formats of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, PlainValidator, ValidationInfo

from calc.dtypes import CACHE_DTYPES, weight_dtype
from calc.spec.run.node import RunNode, Word, YesNo

if TYPE_CHECKING:
    from calc.spec.run.precision import Recipe


def recipe_names() -> tuple[str, ...]:
    """The names of the recipes of mixed precision."""
    from calc.spec.run.precision import RECIPE_BY_NAME  # most runs name none

    return tuple(RECIPE_BY_NAME)


def gradient_formats() -> tuple[str, ...]:
    """The formats in which gradients may be summed."""
    from calc.spec.run.precision import GRADIENT_DTYPES

    return GRADIENT_DTYPES


def fp8_recipes() -> tuple[str, ...]:
    """Megatron-Core's names for what shares a scale in fp8."""
    from calc.spec.run.narrow_weights import FP8_RECIPES

    return tuple(FP8_RECIPES)


def _weights(value: Any, info: ValidationInfo) -> str:
    weight_dtype(value)
    return value


def _frozen(value: Any, info: ValidationInfo) -> str | None:
    if value is not None:
        weight_dtype(value, "frozen dtype")
    return value


class Numerics(RunNode):
    """Number formats: `dtype` of weights where nothing is trained, `recipe` where it is."""

    dtype: Annotated[str, PlainValidator(_weights)] = Field(
        default="bf16",
        description="Number format: fp32, bf16, fp16, fp8, int8, int4; or of weights alone a quantized one, such as "
        "int4:g128.",
    )
    recipe: Annotated[str, PlainValidator(Word(recipe_names))] = Field(
        default="bf16-mixed", description="Training: number formats of weights, gradients and activations."
    )
    gradient_dtype: Annotated[str | None, PlainValidator(Word(gradient_formats, open=True))] = Field(
        default=None, description="Training: format in which gradients are summed."
    )
    fp8_recipe: Annotated[str | None, PlainValidator(Word(fp8_recipes, open=True))] = Field(
        default=None, description="Training in fp8: what shares a scale, by Megatron-Core's names."
    )
    fp8_param_gather: YesNo = Field(
        default=False, description="Training in fp8: matrices are gathered in fp8, and by Megatron-Core kept so."
    )
    cache_dtype: Annotated[str | None, PlainValidator(Word(lambda: CACHE_DTYPES, open=True))] = Field(
        default=None, description="Inference: format of keys and values."
    )
    state_dtype: Annotated[str, PlainValidator(Word(lambda: CACHE_DTYPES))] = Field(
        default="fp32", description="Format of recurrent state."
    )
    frozen: Annotated[str | None, PlainValidator(_frozen)] = Field(
        default=None, description="Training beside an adapter: format of frozen weights, as nf4:g64."
    )

    @property
    def precision(self) -> Recipe:
        """The recipe, with gradients in the format that was said. Errors: Refused for one that it does not go with."""
        from calc.spec.run.precision import summed_in  # most runs train nothing

        return summed_in(self.recipe, self.gradient_dtype)
