"""Measurements of servers that others published: their tables' rows as the words of `serve`."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from calc.errors import Refused
from calc.serve.running import Hold
from harness.serving.launched import ROUNDS, Launched, Sharing, launched

FAMILIES = {
    "minimax-m2": "minimax",
    "qwen3.5-397b": "qwen3.5-397b",
    "llama-3.1-70b": "llama-70b",
    "llama-3.1-8b": "llama-8b",
    "kimi-k2.5": "kimi",
    "deepseek-r1": "deepseek",
    "deepseek-v3": "deepseek",
    "gpt-oss-120b": "gpt-oss",
    "qwen3-32b": "qwen3-32b",
    "qwen3-235b": "qwen3-235b",
}
"""What a model's name has in it -> its family: models of one shape."""
ENGINES = {"trt": "trtllm", "trtllm": "trtllm", "vllm": "vllm", "sglang": "sglang", "atom": "atom"}
"""What rows call an engine -> the engine of the catalogue."""
GPUS = {"h100": "h100-sxm"}
"""What a table calls a GPU -> its name in the catalogue, where they differ."""
SPREAD = 0.2
"""Of InferenceMAX's lengths: evenly between 80 and 100 % of what is named (its benchmark's random range ratio)."""
NODE = 8
"""GPUs of one machine of those that InferenceX runs one engine on."""
COMPILED = 4.0
"""Mean over median of seconds to the first token; 3.6 where 64 prompts of 8,192 tokens come at once to two GPUs."""
OTHERS = "gap_analysis"
"""In the names of aiconfigurator's rows that are InferenceX's: those of Kimi-K2.5 stand among its rows, too, to the
last digit, and those of Qwen3.5 have its images, plans and loads of March to May 2026
(.github/configs/nvidia-master.yaml)."""


@dataclass(frozen=True, slots=True)
class ServedRow:
    """One measurement. Seconds and tokens a second a GPU; None where the row does not tell.

    layout: words of `calc.serve.layout.layout_of`, of decode where prefill is elsewhere; prefill: of that, and how many
    workers each has. budget: tokens of a step, where the engine was started with other than its own; polls: steps
    between two looks at who has come. compiled: whether its first requests waited for kernels to be compiled. rounds:
    requests of its benchmark for each that is under way, the first of which come all at once. hold: for how long
    prompts wait for others to be read with.
    """

    source: str
    gpu: str
    family: str
    engine: str
    system: str
    dtype: str
    cache: str
    input: int
    output: int
    concurrency: float
    gpus: int
    layout: dict[str, int]
    ttft: float | None
    tpot: float | None
    output_per_gpu: float | None
    prefill: dict[str, int] | None = None
    decode_workers: int = 1
    spread: float = 0.0
    budget: int | None = None
    polls: int = 1
    compiled: bool = False
    rounds: int = ROUNDS
    hold: Hold | None = None

    @property
    def exact(self) -> bool:
        """Whether all lengths are exactly those named: of benchmarks that say powers of two, in tokens; those that say
        thousands make text and count it afterwards."""
        return not self.spread and all(size & (size - 1) == 0 for size in (self.input, self.output))

    @property
    def mean_input(self) -> float:
        """Tokens of a prompt in the mean: lengths lie between (1 - spread) and all of what the row says."""
        return self.input * (1 - self.spread / 2)

    @property
    def mean_output(self) -> float:
        """Tokens of an answer in the mean."""
        return self.output * (1 - self.spread / 2)


def inferencemax(file: Path) -> Iterator[ServedRow | Refused]:
    """The rows of the table; Refused for each that does not say enough of its plan to be expressed."""
    with file.open(newline="", encoding="utf-8-sig") as lines:
        for row in csv.DictReader(lines):
            try:
                yield _row(row)
            except Refused as refused:
                yield refused


def _row(row: dict[str, str]) -> ServedRow:
    model = row["model"].lower()
    family = next((name for part, name in FAMILIES.items() if part in model), None)
    if family is None:
        raise Refused("model", "one of a known family", row["model"])
    gpu = row["gpu"].split("_")[0].split("-")[0]
    framework = row["framework"].replace("dynamo-", "").replace("-disagg", "")
    engine = ENGINES[framework]
    concurrency = number(row["concurrency"])
    if concurrency is None:
        raise Refused("concurrency", "how many requests are under way", "nothing")
    apart, dtype = row["mode"] == "disagg", _dtype(row["precision"], family, gpu)
    layout, gpus, prefill, workers = _plan(row, family, dtype, apart=apart)
    lengths = (int(row["isl"]), int(row["osl"]))
    theirs = row["origin"].startswith("Inference") or OTHERS in row["row_id"]
    sharing = Sharing(layout["tp"], layout["attention_dp"], layout["ep"])
    asked = (engine, family, gpu, dtype, lengths, concurrency, sharing, row["measured_date"])
    started = launched(*asked) if theirs else Launched()
    return ServedRow(
        source=row["origin"].split(" run ")[0],
        gpu=gpu,
        family=family,
        engine=engine,
        system=f"{gpu} {family} {engine}",
        dtype=dtype,
        cache=started.cache or _cache(engine, dtype, family),
        input=lengths[0],
        output=lengths[1],
        concurrency=concurrency,
        gpus=gpus,
        layout=layout,
        ttft=_seconds(row["ttft_mean_ms"]),
        tpot=_seconds(row["tpot_mean_ms"]),
        output_per_gpu=number(row["tput_output_tok_s_per_gpu"]) if row["tput_kind"] == "measured" else None,
        prefill=prefill,
        decode_workers=workers,
        spread=SPREAD if theirs else 0.0,
        budget=started.budget,
        polls=started.polls,
        rounds=started.rounds,
        hold=started.hold,
        compiled=_compiled(row),
    )


def _plan(
    row: dict[str, str], family: str, dtype: str, *, apart: bool
) -> tuple[dict[str, int], int, dict[str, int] | None, int]:
    """The layout of a replica, GPUs in all, that of the replicas of prefill where they stand apart, and how many
    replicas decode. Errors: Refused where ranks do not add up to the row's GPUs."""
    layout, gpus = _layout(row, "decode_" if apart else ""), int(row["n_gpus"])
    if not apart:
        if _gpus(layout) != gpus:
            raise Refused("plan", f"ranks that add up to {gpus} GPUs", f"{_gpus(layout)}")
        layout = _once(layout, family, dtype)
        return layout, _gpus(layout), None, 1
    prefill = _layout(row, "prefill_") | {"workers": int(number(row["prefill_workers"]) or 0)}
    workers = int(number(row["decode_workers"]) or 0)
    taken = _gpus(layout) * workers + _gpus(prefill) * prefill["workers"]
    if taken != gpus:
        raise Refused("plan", f"ranks that add up to {gpus} GPUs", f"{taken}")
    return layout, gpus, prefill, workers


def _layout(row: dict[str, str], lead: str) -> dict[str, int]:
    tp = int(number(row[f"{lead}tp"]) or 0)
    dp = int(number(row[f"{lead}attn_dp" if lead else "attn_dp"]) or 1)
    if not tp:
        raise Refused(f"{lead}tp", "how many GPUs share a sequence", "nothing")
    ep = int(number(row[f"{lead}moe_ep"]) or 1)
    pp = 1 if lead else int(number(row["pp"]) or 1)
    return {"tp": tp, "pp": pp, "attention_dp": dp, "ep": ep}


def _once(layout: dict[str, int], family: str, dtype: str) -> dict[str, int]:
    """The layout of InferenceX's `tp N, ep N`, of which aiconfigurator's table makes N groups of N GPUs, or N * N, on a
    machine of 8: N GPUs, experts over all of them.

    Attention is each GPU's own where a run says so and its script heeds it, as that of MiniMax-M2.5 in NVFP4 does
    (vllm serve --tensor-parallel-size 1 --data-parallel-size N). Scripts of MiniMax-M2.5 in FP8 do not read it, and the
    runs of Kimi-K2.5 that say it are those that do not, to the last digit.
    """
    n = layout["tp"]
    if n > 1 and layout["attention_dp"] == n and layout["ep"] == n * n:
        own = (family, dtype) == ("minimax", "nvfp4")
        return layout | {"tp": 1 if own else n, "attention_dp": n if own else 1, "ep": n}
    if n > NODE and layout["ep"] ** 2 == n and layout["attention_dp"] == 1:
        return layout | {"tp": layout["ep"]}
    return layout


def _gpus(layout: dict[str, int]) -> int:
    return layout["tp"] * layout["pp"] * layout["attention_dp"]


def _dtype(precision: str, family: str, gpu: str) -> str:
    if family == "gpt-oss":
        return "mxfp4"
    if precision == "fp4":
        return "mxfp4" if gpu.startswith("mi") else "nvfp4"
    if precision == "int4":
        return "int4:g32:experts"  # Kimi-K2.5's own checkpoint
    return precision or "bf16"


def _cache(engine: str, dtype: str, family: str) -> str:
    """Checkpoints that NVIDIA makes in 8 and 4 bits name a cache in fp8, which TensorRT-LLM and vLLM follow; those of
    other makers and SGLang keep the activations' format."""
    if engine == "trtllm":
        return "bf16" if dtype == "bf16" else "fp8"
    theirs = dtype == "nvfp4" or (dtype == "fp8" and family in ("llama-70b", "llama-8b"))
    return "fp8" if engine == "vllm" and theirs else "bf16"


def _compiled(row: dict[str, str]) -> bool:
    """Whether the mean first token is so far above the median that a first round of requests waited for compilers, 20
    or 70 seconds where the others waited 0.1 or 0.5: many times what waiting for one another makes of it."""
    mean, median = number(row["ttft_mean_ms"]), number(row["ttft_median_ms"])
    return mean is not None and median is not None and mean > COMPILED * median


def _seconds(milliseconds: str) -> float | None:
    found = number(milliseconds)
    return None if found is None else found / 1000


def number(text: str) -> float | None:
    """The number that a cell holds; None for an empty one."""
    value = float(text) if text.strip() else math.nan
    return value if math.isfinite(value) else None
