"""Serving engines: what each runs in a step and how it keeps what it caches, as data with version and source."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from pathlib import Path
from typing import Literal

from calc.errors import Refused
from calc.reading.files import parse_toml, read_text
from calc.spec.hardware import Device
from calc.units import parse_bytes

FOLDER = Path(__file__).parents[2] / "data" / "engines"
SPARSE_LATENT = (512, 64, 656)
"""(kv_rank, d_rope, bytes) of a token's latent in fp8 where attention is sparse (vLLM's fp8_ds_mla): 512 elements in
fp8, four scales in fp32, and the rotary key in bf16. vllm/v1/attention/backends/mla/flashmla_sparse.py."""
INDEX_BLOCK = 128
"""Elements of an indexer's key that share a scale in fp32; the elements are in fp8 whatever the cache is in
(vllm/model_executor/models/deepseek_v2.py, DeepseekV32IndexerCache)."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """How an engine lays out the cache, where its rules were read to the byte (`calc.memory.paging`).

    latent_block: tokens of a page of latents. rules: in words.
    """

    rules: str
    source: str
    latent_block: int


@dataclass(frozen=True, slots=True)
class Admission:
    """How much room an engine keeps for answers to come before it lets another request in, which itself must find room
    for its prompt and all of its answer, as far as it counts that (`most` tokens).

    part: of what each running sequence has still to make, at first. least, steps: what that part falls to, in so many
    steps; 0 steps: it stays. ahead: where one gave way, the part becomes what those left have made of their answers,
    each with so many tokens more.
    """

    source: str
    part: float
    least: float
    steps: int = 0
    ahead: int = 0
    most: int = 10**9


@dataclass(frozen=True, slots=True)
class Smaller:
    """Devices on which an engine's steps are smaller by default: with less memory than `below` bytes, or `named` so."""

    below: int
    named: Collection[str]
    batched_tokens: int
    max_seqs: int

    def applies(self, device: Device) -> bool:
        """Whether a device is one of them."""
        return device.usable < self.below or any(name in device.name for name in self.named)


@dataclass(frozen=True, slots=True)
class Runs:
    """What an engine runs on, and when that was read where. on: makers of devices, or how the names of their
    architectures begin. weights, caches: formats (`calc.serve.formats.Format.kind`) -> of these devices, those on which
    it loads them and runs them as others have measured; none named: all."""

    source: str
    read: date
    on: Collection[str]
    weights: Mapping[str, Collection[str]] = field(hash=False)
    caches: Mapping[str, Collection[str]] = field(hash=False)


@dataclass(frozen=True, slots=True)
class Engine:
    """The rules of one engine.

    version: of the sources that were read. block: tokens of a page of the cache. batched_tokens: of one step, at most.
    max_seqs: sequences that run at once, at most. smaller: where both are less; None: nowhere. memory_fraction: what it
    takes (`fraction_of`) of a GPU's memory for weights, a step and the cache ("all"), of what is free before weights
    are loaded for weights and the cache, steps having the rest ("found"), or of what weights and a step leave ("free").
    chunked: whether a prompt may be read in pieces. mixed: whether pieces of prompts and new tokens share a step.
    cache: the format of keys and values beside weights in 8 bits or fewer, where nobody says. scatter: spread of
    lengths of requests that are called equal: with 0 those that begin together stay in step, which prompts that go
    ahead of everything keep up. ahead: whether it lays the next step while one runs, so that who comes meanwhile waits
    for a step more. cache_words: formats of keys and values -> what its option calls them; cache_since: the version
    from which on it has that option, "" for one as old as `version`. speculation: the option that says what guesses
    tokens; "" where it is not known. constants: the file of calc/data/serving that has what it takes. serial: whether
    its host works for sequences between steps; others schedule one step while the device runs another. experts_alike:
    whether experts are products like all others, and no kernels of their own. half_sums: whether products in 16 bits
    are summed in 16 bits. towers_apart: whether towers of pictures and sound are files of their own, loaded where it is
    told to. table_on_host: whether the token table stays with the CPU. unfitted: constants that its fit left out, so
    that what they stand for to others takes no seconds of its own. allocation: None where it is not known to the byte.
    admission: None where whoever's prompt fits is let in. runs: None where nobody has read it, and nothing is refused.
    """

    name: str
    title: str
    version: str
    source: str
    block: int
    batched_tokens: int
    max_seqs: int
    memory_fraction: float
    fraction_of: Literal["all", "found", "free"]
    chunked: bool
    mixed: bool
    prefix_cache: bool
    cache: str
    scatter: float
    ahead: bool
    cache_words: Mapping[str, str] = field(default_factory=dict, hash=False)
    cache_since: str = ""
    speculation: str = ""
    constants: str = "constants"
    serial: bool = False
    experts_alike: bool = False
    half_sums: bool = False
    towers_apart: bool = False
    table_on_host: bool = False
    unfitted: Collection[str] = ()
    allocation: Allocation | None = None
    admission: Admission | None = None
    runs: Runs | None = None
    smaller: Smaller | None = None

    def limits(self, device: Device) -> tuple[int, int]:
        """Tokens of a step and sequences at once on a device, where nobody says."""
        own = self.smaller if self.smaller is not None and self.smaller.applies(device) else self
        return own.batched_tokens, own.max_seqs

    @property
    def promises_all(self) -> bool:
        """Whether nobody is let in without room for all of the answer, so that nobody gives way."""
        return self.admission is not None and self.admission.least >= 1.0


def engine_names() -> list[str]:
    """The engines of the data folder, sorted."""
    return sorted(_engines())


def allocating_names() -> list[str]:
    """Those whose rules of allocation are known, sorted."""
    return [name for name in engine_names() if _engines()[name].allocation is not None]


def engine_named(name: str) -> Engine:
    """The engine called `name`. Errors: Refused, with the known names."""
    if name not in _engines():
        raise Refused("--engine", f"one of {', '.join(engine_names())}", name)
    return _engines()[name]


@cache
def _engines() -> dict[str, Engine]:
    found = {}
    for path in sorted(FOLDER.glob("*.toml")):
        table = parse_toml(read_text(path), path.name)
        if "smaller" in table:
            table["smaller"]["below"] = parse_bytes(table["smaller"]["below"], f"{path.name}: below")
        for name, kind in (("allocation", Allocation), ("admission", Admission), ("runs", Runs), ("smaller", Smaller)):
            table[name] = kind(**table[name]) if name in table else None
        table["unfitted"] = frozenset(table.get("unfitted", ()))
        found[table["name"]] = Engine(**table)
    return found
