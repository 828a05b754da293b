"""From samples to a profile: models fitted to them, each with the error that cross-validation finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from calc.dtypes import dtype as number_format
from calc.errors import Refused
from calc.spec.hardware import Device
from calc.time.device.profile import Fit, Launch, Profile, Provenance
from calc.time.models.decoding import DecodeModel
from calc.time.models.flash import AttentionModel
from calc.time.models.gemm import GemmModel
from calc.time.models.limits import Limits, limits_of
from calc.time.models.passes import PassModel
from calc.time.models.residual import Spread
from calc.time.models.smooth import SmoothAttention, SmoothDecode, SmoothGemm
from harness.measuring.limits import catalogued
from harness.profiling.samples import Samples
from harness.record import Environment

SHAPE = ("batch", "heads", "kv_heads", "seq", "keys", "d_head", "causal")
"""What the sizes of `attention.<format>` are."""
CONTEXT = ("batch", "heads", "kv_heads", "context", "d_head")
"""What the sizes of `decode.<format>` are."""
_ABOVE = 1.1
"""Limits of a device without a datasheet are so many times the most that was measured."""
_LEAST = 6
"""Points below which a model would have more constants than figures."""

Points = Sequence[tuple[tuple[float, ...], float]]
"""(sizes, seconds)."""


def profile_of(samples: Samples, environment: Environment, found: Mapping[str, Any]) -> Profile:
    """The profile of all samples. found: what else is to be told of the machine.

    Errors: Refused where time was too short for any product or pass.
    """
    device = catalogued(environment)
    products = {name.removeprefix("gemm."): samples.medians(name) for name in samples.groups() if "gemm." in name}
    passes = _passes(samples)
    if not products or not passes:
        raise Refused("--time", "enough seconds for a product and a pass of each kind", "too few")
    limits = {dtype: _limits(dtype, products, passes, device, environment) for dtype in passes}
    source = f"torch {environment.torch}"
    gemm = _gemm(products, limits, source)
    ran = found.get("sdpa", {})
    fused = _attention(samples, limits, {dtype: f"{source} {ran.get(dtype, 'sdpa')}" for dtype in limits})
    spreads = {f"gemm.{name}": model.spread for name, model in gemm.items()}
    spreads |= {f"{table}.{name}": model.spread for table, models in fused.items() for name, model in models.items()}
    fits = {name: _fit(spread) for name, spread in spreads.items() if spread is not None}
    return Profile(
        name=environment.slug,
        device=environment.name,
        kind=environment.device,
        catalogue=device.name if device else None,
        environment={**found, "peak": _peaks(products), "rounds": samples.rounds, "failed": samples.failed},
        gemm=gemm,
        attention=fused["attention"],
        attention_backward=fused["attention_backward"],
        decode=fused["decode"],
        passes=passes,
        launch=_launch(samples, environment),
        fits=fits | _pass_fits(passes),
        provenance=Provenance(
            source="python -m harness profile",
            licence="none: measured on the machine it is of",
            made=datetime.now(UTC).date().isoformat(),
            note="medians of up to three rounds through all points in different orders",
        ),
    )


def _limits(
    dtype: str, products: Mapping[str, Points], passes: Mapping[str, Any], device: Device | None, machine: Environment
) -> Limits:
    """The datasheet's, or what no measurement came near to."""
    if device is not None:
        return limits_of(device, dtype)
    copies = [size / seconds for table in passes.values() if "copy" in table for size, seconds in table["copy"].knots]
    return Limits(
        peak=_ABOVE * max(_peaks(products).get(dtype, 0.0), 1e9),
        bandwidth=_ABOVE * max([1e9, *copies]),
        itemsize=number_format(dtype).bits / 8,
        cores=machine.sm_count,
    )


def _peaks(products: Mapping[str, Points]) -> dict[str, float]:
    """FLOP/s of the fastest product, by format."""
    found: dict[str, float] = {}
    for name, points in products.items():
        dtype = name.partition(".")[0]
        rates = [2 * m * n * k * batch / seconds for (m, n, k, batch), seconds in points]
        found[dtype] = max([found.get(dtype, 0.0), *rates])
    return found


def _columns(names: Sequence[str], points: Points) -> tuple[dict[str, Any], Any]:
    """Sizes by name and seconds, as float64 columns."""
    import numpy as np

    sizes = np.array([each for each, _ in points], dtype=float)
    return {name: sizes[:, i] for i, name in enumerate(names)}, np.array([seconds for _, seconds in points])


def _gemm(products: Mapping[str, Points], limits: Mapping[str, Limits], source: str) -> dict[str, Any]:
    """Products by format and layout: tiles over the cores of a GPU, or for a CPU a smooth model of all layouts."""
    tables = {name: _columns(("m", "n", "k", "batch"), points) for name, points in products.items()}
    found: dict[str, Any] = {}
    for dtype, each in limits.items():
        own = {name: table for name, table in tables.items() if name.partition(".")[0] == dtype}
        if each.cores is None:
            found |= SmoothGemm.fit(own, each.itemsize, source) if own else {}
        else:
            found |= {name: GemmModel.fit(*table, each, source) for name, table in own.items()}
    return found


def _attention(samples: Samples, limits: Mapping[str, Limits], sources: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Attention over prompts, back through it, and of new tokens, of the formats that have points enough. sources: what
    was measured, by format; the last word is the backend that ran."""
    found: dict[str, dict[str, Any]] = {"attention": {}, "attention_backward": {}, "decode": {}}
    for dtype, each in limits.items():
        for table, group, names in (
            ("attention", f"attention.{dtype}", SHAPE),
            ("attention_backward", f"attention.{dtype}.backward", SHAPE),
            ("decode", f"decode.{dtype}", CONTEXT),
        ):
            points = samples.medians(group)
            if len(points) >= _LEAST:
                shape, seconds = _columns(names, points)
                found[table][dtype] = _fused(table, _whole(shape), seconds, each, sources[dtype])
    return found


def _fused(table: str, shape: Mapping[str, Any], seconds: Any, limits: Limits, source: str) -> Any:
    if limits.cores is None:
        kind = SmoothDecode if table == "decode" else SmoothAttention
        return kind.fit({"": (shape, seconds)}, limits.itemsize, source)[""]
    if table == "decode":
        return DecodeModel.fit(shape, seconds, limits, source)
    return AttentionModel.fit(shape, seconds, limits, source, backward=table == "attention_backward")


def _whole(shape: Mapping[str, Any]) -> dict[str, Any]:
    """With the sizes that all of them have in common: values as wide as keys, no window, no latents."""
    none = 0 * shape["d_head"]
    return {**shape, "d_value": shape["d_head"], "window": none, "latent": none}


def _passes(samples: Samples) -> dict[str, dict[str, PassModel]]:
    """Passes by format and name; the spread of each is what leaving out knots of its format shows."""
    knots: dict[str, dict[str, tuple[tuple[float, float], ...]]] = {}
    for group in samples.groups():
        kind, _, rest = group.partition(".")
        dtype, _, name = rest.partition(".")
        if kind == "pass":
            knots.setdefault(dtype, {})[name] = tuple((size[0], each) for size, each in samples.medians(group))
    found = {}
    for dtype, table in knots.items():
        ratios = [ratio for each in table.values() for ratio in left_out(each)]
        spread = _between(ratios) if ratios else (0.5, 2.0)
        found[dtype] = {name: PassModel(knots=each, spread=spread) for name, each in table.items()}
    return found


def left_out(knots: Sequence[tuple[float, float]]) -> list[float]:
    """Measured over predicted seconds of every inner knot, where it is not in the model: wider apart than in use."""
    return [
        knots[i][1] / PassModel(knots=(*knots[:i], *knots[i + 1 :])).seconds(knots[i][0])
        for i in range(1, len(knots) - 1)
    ]


def _between(ratios: Sequence[float]) -> tuple[float, float]:
    """The ratios between which nine in ten lie."""
    import numpy as np

    low, high = np.quantile(ratios, (0.05, 0.95))
    return float(min(low, 1.0)), float(max(high, 1.0))


def _pass_fits(passes: Mapping[str, Mapping[str, PassModel]]) -> dict[str, Fit]:
    found = {}
    for dtype, table in passes.items():
        errors = sorted(abs(1 / ratio - 1) for model in table.values() for ratio in left_out(model.knots))
        if errors:
            points = sum(len(model.knots) for model in table.values())
            middle, mean = errors[len(errors) // 2], sum(errors) / len(errors)
            how = "cross-validated"
            found[f"passes.{dtype}"] = Fit(
                points=points, held_out=len(errors), mape=mean, median_ape=middle, worst=errors[-1], how=how
            )
    return found


def _fit(spread: Spread) -> Fit:
    import math

    worst = max(math.expm1(abs(value)) for value in spread.quantiles)
    return Fit(
        points=spread.n,
        held_out=spread.n,
        mape=spread.mape,
        median_ape=spread.median_ape,
        worst=worst,
        how="cross-validated",
    )


def _launch(samples: Samples, environment: Environment) -> Launch | None:
    """On a GPU kernels are timed in CUDA graphs, where what lies between them is in their time already."""
    found = {name: samples.medians(f"launch.{name}") for name in ("eager", "backward", "step")}
    if not all(found.values()):
        return None
    seconds = {name: points[0][1] for name, points in found.items()}
    return Launch(**seconds, graph=0.0 if environment.device == "cuda" else None)
