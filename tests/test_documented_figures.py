"""Figures in the prose of the documents are what the product computes, or are marked here as quoted from others."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

import calc
from calc.architectures import from_config
from calc.architectures.config import Tying
from calc.conventions import flops
from calc.spec import Attention, ModelSpec, Moe
from calc.teaching.flash_attention_table import Row
from calc.teaching.flash_attention_table import rows as flashattention
from calc.teaching.training_costs import training_costs
from tests import reference
from tests.conventions.shapes import gpt_oss_20b, train
from tests.reference import ROOT

KINDS = ("standard", "flash")


@cache
def of_config(name: str, tying: Tying = "transformers") -> ModelSpec:
    return from_config(reference.config(name), name, tying)


def params(name: str, tying: Tying = "transformers") -> str:
    return f"{calc.estimate(of_config(name, tying), 'params').value:,}"


def with_second_table(name: str) -> str:
    """Every parameter, and the tied head once more."""
    spec: Any = of_config(name)
    return f"{calc.estimate(spec, 'params').value + spec.vocab_size * spec.d_model:,}"


def cached(name: str, more: int = 1) -> str:
    """Bytes of the cache that a token takes in one layer at 16 bits."""
    spec = of_config(name)
    one, two = (calc.estimate(spec, "kv_cache", seq=seq).value for seq in (64, 65))
    return f"{(two - one) // spec.n_layers * more:,}"


def ungrouped(name: str) -> str:
    """The same with keys and values for every query head."""
    mixer = of_config(name).layers[0].mixer
    assert isinstance(mixer, Attention)
    assert mixer.n_kv_heads is not None
    return cached(name, mixer.n_heads // mixer.n_kv_heads)


def decoded(reading: str, digits: int) -> str:
    """FLOPs of one token of DeepSeek-V3 behind 512."""
    spec = of_config("DeepSeek-V3")
    asked = {"context": 512, "latent_reading": reading}
    return f"{calc.estimate(spec, 'flops.decode', **asked).value:.{digits - 1}e}".replace("e+", "e")


def further() -> str:
    """Parameters of DeepSeek-V3's module that predicts one token more."""
    spec = of_config("DeepSeek-V3")
    return f"{calc.estimate(spec, 'params', mtp=True).value - calc.estimate(spec, 'params').value:,}"


def router_biases() -> str:
    """One a routed expert in every layer that has them."""
    groups = of_config("DeepSeek-V3").layers
    return f"{sum(each.count * each.channel.n_experts for each in groups if isinstance(each.channel, Moe)):,}"


def squares(seq: int) -> str:
    """FLOPs of Llama 3.1 405B with the full square of scores over those with half of it."""
    spec = calc.load_model("llama-3.1-405b")
    full, half = (
        calc.estimate(spec, "flops.forward", seq=seq, convention=name).value for name in ("torch", "causal-half")
    )
    return f"{full / half:.2f}"


def conventions() -> dict[str, Callable[[], str]]:
    return {
        "24,141,260,160 FLOPs": lambda: f"{flops(gpt_oss_20b(), train('torchtitan', 4096)).total // 4096:,} FLOPs",
        "1.04 apart at 8,192": lambda: f"{squares(8192)} apart at 8,192",
        "1.40 at 131,072": lambda: f"{squares(131072)} at 131,072",
        "7,217,189,760": lambda: with_second_table("falcon-7b"),
        "179,522,565,120": lambda: with_second_table("falcon-180b"),
        "751,632,384": lambda: with_second_table("Qwen3-0.6B"),
        "6,921,720,704": lambda: params("falcon-7b"),
        "178,557,088,768": lambda: params("falcon-180b"),
        "596,049,920": lambda: params("Qwen3-0.6B"),
        "247,577,856": lambda: params("flan-t5-base", "checkpoint"),
        "2,849,757,184": lambda: params("flan-t5-xl", "checkpoint"),
        "222,903,552": lambda: params("flan-t5-base"),
        "2,783,959,040": lambda: params("flan-t5-xl"),
        "2,048 bytes a token and layer": lambda: f"{cached('falcon-180b')} bytes a token and layer",
        "59,392 bytes": lambda: f"{ungrouped('falcon-180b')} bytes",
        "1,152 bytes at 16 bits": lambda: f"{cached('DeepSeek-V3')} bytes at 16 bits",
        "indexer 1,408": lambda: f"indexer {cached('DeepSeek-V3.2')}",
        "1.12e12 FLOPs": lambda: f"{decoded('expanded', 3)} FLOPs",
        "`--latent-reading absorbed`: 8.2e10": lambda: f"`--latent-reading absorbed`: {decoded('absorbed', 2)}",
        "14,848 elements": lambda: f"{router_biases()} elements",
        "671,026,404,352": lambda: params("DeepSeek-V3"),
        "11,610,067,968": further,
        "109,482,240": lambda: f"{calc.estimate(calc.load_model('bert-base'), 'params').value:,}",
        "335,141,888": lambda: f"{calc.estimate(calc.load_model('bert-large'), 'params').value:,}",
        "8,028,033,024": lambda: params("c4ai-command-r7b"),
    }


def prediction() -> dict[str, Callable[[], str]]:
    def trainings() -> str:
        found = [each for each in training_costs() if each.unit == "core-days"]
        assert {each.verdict for each in found} == {"within"}, "all lie in the interval"
        low, middle, high = sorted(each.printed / each.predicted for each in found)
        return f"(measured / predicted {low:.2f}, {middle:.2f} and {high:.2f})"

    return {"(measured / predicted 0.91, 1.04 and 1.34)": trainings}


def attention() -> dict[str, Callable[[], str]]:
    rows = {(row.quantity, row.attention): row for row in flashattention()}

    def gigabytes(quantity: str, kind: str) -> str:
        return f"{rows[quantity, kind].counted / 1e9:.2f} GB"

    def factors() -> str:
        slow, fast = (rows["FLOPs", kind].counted / (rows["FLOPs", kind].printed or 0) for kind in KINDS)
        return f"{slow:.1f} and {fast:.1f} times too small"

    def rates() -> str:
        slow, fast = (
            (rows["FLOPs", kind].printed or 0) / (rows["predicted time", kind].printed or 0) / 1e12 for kind in KINDS
        )
        return f"{slow:.1f} and {fast:.1f} TFLOP/s"

    def predicted(kind: str) -> str:
        return f"{rows['predicted time', kind].counted * 1e3:.1f} ms for"

    return {
        "40.27 GB": lambda: gigabytes("HBM, and dropout", "standard"),
        "25.23 GB": lambda: gigabytes("HBM, algorithms 0 and 3", "standard"),
        "4.38 GB": lambda: gigabytes("HBM, algorithms 1 and 4", "flash"),
        "12.4 and 12.8 times too small": factors,
        "1.6 and 10.3 TFLOP/s": rates,
        "26.7 ms for": lambda: predicted("standard"),
        "8.9 ms (5.4 to 15.2) for": lambda: predicted("flash").replace(" for", f" ({interval(rows)}) for"),
    }


def interval(rows: dict[tuple[str, str], Row]) -> str:
    low, high = re.findall(r"(\S+) … (\S+) ms", rows["predicted time", "flash"].why)[0]
    return f"{low} to {high}"


COMPUTED = {"attention": attention(), "conventions": conventions(), "prediction-measured": prediction()}
"""Document -> what it says -> what it ought to say."""
QUOTED = {
    "8,027,901,952": "a total that circulates",
    "416,754,176": "the difference to a tower of a class's defaults, which is refused here",
}
"""Figures of others that the documents quote, and what they are."""


@pytest.mark.parametrize(
    ("document", "said"), [(document, said) for document, figures in COMPUTED.items() for said in figures]
)
def test_documented_figures_are_computed(document: str, said: str) -> None:
    assert said in " ".join(prose(document).split())
    assert COMPUTED[document][said]() == said


HELD = {"peers": "tests/test_peers_page.py"}
"""Pages of figures alone -> the test that holds all of them."""


@pytest.mark.parametrize("document", [p.stem for p in sorted((ROOT / "docs").glob("*.md")) if p.stem not in HELD])
def test_every_exact_figure_is_computed_or_quoted(document: str) -> None:
    """Whole numbers from a million on, written with every digit."""
    found = set(re.findall(r"\b\d{1,3}(?:,\d{3}){2,}\b", prose(document)))
    assert all((ROOT / test).exists() for test in HELD.values())
    known = " ".join([*COMPUTED.get(document, ()), *QUOTED])
    assert not [figure for figure in found if figure not in known]


def prose(document: str) -> str:
    """A document without its blocks of code, whose output other tests hold."""
    text = (ROOT / "docs" / f"{document}.md").read_text()
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
