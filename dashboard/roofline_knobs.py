"""The knobs of the page Roofline: what runs, on which device, on how many of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import streamlit as st

from calc.spec import ModelSpec
from calc.spec.catalogue import device_names
from calc.spec.run import Run, common_context
from calc.spec.run.precision import RECIPE_BY_NAME
from calc.time.step.timed_run import TIMED_EXECUTIONS
from dashboard import knobs, layout, planning, results
from dashboard.knobs import forget_stale
from dashboard.shared import share

DEVICE = "h100-sxm"
MEASURED = "measured: "
"""What stands before the name of a device whose own profile is among the results."""
FORMATS = ("bf16", "fp16", "fp8", "fp32", "int8", "int4:g128")
LONGEST = 131_072
BATCHES = tuple(2**power for power in range(13))


@dataclass(frozen=True)
class Knobs:
    """What is asked. where: a device of the catalogue, or `measured: SLUG`. length: new tokens, or those cached.
    degrees: of the plan, those that are not its defaults. network: of a GPU to other nodes, as it is typed."""

    where: str
    phase: Any
    batch: int
    length: int
    dtype: str
    execution: Any
    checkpointing: Any
    degrees: tuple[tuple[str, Any], ...] = ()
    network: str = ""

    def words(self, reference: str) -> list[str]:
        """The same as words for the command line."""
        speed = ["--gpu", self.where]
        if self.where.startswith(MEASURED):
            speed = ["--profile", str(results.profile_path(self.where.removeprefix(MEASURED)))]
        length = ["--context" if self.phase == "decode" else "--seq", str(self.length)]
        words = ["predict", reference, *speed, "--phase", self.phase, "--batch", str(self.batch), *length]
        words += ["--dtype", self.dtype, "--execution", self.execution]
        if self.checkpointing != "none":
            words += ["--checkpointing", self.checkpointing]
        words += [word for name, number in self.degrees for word in (f"--{name}", str(number))]
        return words + (["--network", self.network] if self.network else [])


def ask(spec: ModelSpec) -> Knobs:
    """Draw the knobs, six of them in sight; what they say."""
    left, right = st.columns(2)
    with left:
        phase, batch, length = _what(spec)
    training = phase == "training"
    with right:
        devices = [*device_names(), *(MEASURED + slug for slug in results.profiles())]
        share("gpu", devices, DEVICE)
        where = st.selectbox("Device", devices, index=devices.index(DEVICE), key="gpu", bind="query-params")
        one, two = st.columns(2)
        with one:
            dtype = _format(training)
        with two:
            checkpointing = knobs.checkpointing() if training else "none"
    found = _many() if training else _ranks()
    return Knobs(where, phase, batch, length, dtype, found[0], checkpointing, *found[1:])


def _what(spec: ModelSpec) -> tuple[str, int, int]:
    """Draw the knobs of what runs; (phase, sequences, tokens of each)."""
    phases = ("forward", "training") if spec.head is None else ("prefill", "decode", "training", "forward")
    forget_stale("phase", list(phases), phases[0])
    phase = st.segmented_control(
        "What is run",
        phases,
        default=phases[0],
        required=True,
        key="phase",
        bind="query-params",
        help="prefill: a prompt, logits of its last token; decode: one token more for each sequence; training: a "
        "step with backward and optimizer; forward: a pass with all logits",
    )
    batches = knobs.holding("batch", BATCHES, BATCHES[-1])
    share("batch", batches, 1)
    batch = st.select_slider("Batch (sequences)", batches, key="batch", bind="query-params", value=1)
    decode = phase == "decode"
    lengths, key = _lengths(spec, decode), "context" if decode else "seq"
    usual = next((each for each in lengths if each >= 2048), lengths[-1])
    lengths = knobs.holding(key, lengths, lengths[-1])
    forget_stale(key, lengths, usual)
    share(key, lengths, usual)
    label = "Context (tokens in the cache)" if decode else "Sequence (tokens)"
    return phase, batch, st.select_slider(label, lengths, value=usual, key=key, bind="query-params")


def _format(training: bool) -> str:
    dtypes = [*RECIPE_BY_NAME] if training else [*FORMATS]
    key = "recipe" if training else "weights_in"
    first = dtypes.index("bf16-mixed" if training else "bf16")
    share(key, dtypes, dtypes[first])
    label = "Formats" if training else "Weights"
    return str(st.selectbox(label, dtypes, index=first, key=key, bind="query-params"))


def _kernels() -> str:
    share("execution", TIMED_EXECUTIONS, "sdpa")
    return st.selectbox(
        "Kernels",
        TIMED_EXECUTIONS,
        index=TIMED_EXECUTIONS.index("sdpa"),
        key="execution",
        bind="query-params",
        help="eager: attention in the open; sdpa: attention in one kernel; compiled: elementwise runs in one too; "
        "graph: as that, replayed from a CUDA graph",
    )


def _ranks() -> tuple[str, tuple[tuple[str, Any], ...], str]:
    """Draw the knobs of kernels and of GPUs that serve together; as `_many`."""
    with layout.fold("Kernels, several GPUs", "execution", "tp"):
        left, right = st.columns(2)
        with left:
            execution = _kernels()
        share("tp", ranks := (1, 2, 4, 8), 1)
        tp = right.selectbox("GPUs (TP)", ranks, key="tp", bind="query-params", help="Tensor-parallel ranks")
    return execution, _more_than_one({"tp": tp}), ""


def _many() -> tuple[str, tuple[tuple[str, Any], ...], str]:
    """Draw the knobs of kernels and of many GPUs that train; (kernels, degrees, network)."""
    with planning.details("training", "execution"):
        left, right = st.columns([3, 2])
        with left:
            degrees = planning.degrees("training")
        with right:
            execution = _kernels()
        network = right.text_input(
            "Network between nodes, of a GPU", "50GB/s", key="network", bind="query-params", max_chars=20,
            help="In bytes or bits: 50GB/s or 400Gbps. It counts where a plan needs more GPUs than a node has",
        )  # fmt: skip
    found = _more_than_one(degrees)
    return execution, found, network.strip() if found else ""


def _more_than_one(degrees: dict[str, int]) -> tuple[tuple[str, Any], ...]:
    return tuple((name, number) for name, number in degrees.items() if number != getattr(Run(), name))


def _lengths(spec: ModelSpec, decode: bool) -> list[int]:
    """Powers of two up to what the model takes, and that."""
    limit = min(spec.max_seq_len or LONGEST, LONGEST)
    limit = common_context([spec], limit) if decode else limit
    found = [2**power for power in range(7, 18) if 2**power < limit]
    return [*found, limit] if found else [max(limit, 1), max(limit, 1) + 1]
