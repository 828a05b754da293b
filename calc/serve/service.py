"""A service: a model on some GPUs under an engine, and all that follows before anybody sends a request."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

from calc.errors import Refused
from calc.serve.capacity import cache_room, cached_bytes
from calc.serve.clock import StepClock
from calc.serve.constants import Constants, Fitted, constants_of
from calc.serve.formats import Format, cache_bits, served_format
from calc.serve.layout import Layout
from calc.serve.links import between_servers
from calc.serve.machine import Machine
from calc.serve.prefixes import Prefixes
from calc.serve.rank import Rank, at, rank_of
from calc.serve.rates import rates_of, request_seconds
from calc.serve.running import Hold, Rules
from calc.serve.server import Server
from calc.serve.step import Rates
from calc.serve.support import check_support, default_cache
from calc.serve.work import LONGEST, Work, work_of
from calc.spec import ModelSpec
from calc.spec.catalogue import load_device
from calc.spec.hardware import Device
from calc.spec.run.engines import Engine, engine_named
from calc.time.step.network import table_elements

ENDLESS = 10**9
"""Pages that are counted at most, and where a sequence takes none."""


@dataclass(frozen=True)
class Guessing:
    """Speculation: `tokens` are guessed a step and each is right with a chance of `acceptance` where those before it
    were; guessing one takes `share` of a pass over the model."""

    tokens: int = 0
    acceptance: float = 0.0
    share: float = 0.0

    @property
    def accepted(self) -> float:
        """Tokens of a step in the mean: (1 - a^(n + 1)) / (1 - a) (Leviathan et al. 2023, arXiv:2211.17192, eq. 1)."""
        a, n = self.acceptance, self.tokens
        return n + 1.0 if a == 1 else (1 - a ** (n + 1)) / (1 - a)


@dataclass(frozen=True)
class Service:
    """One kind of server. budget: tokens of a step. max_running: sequences at once, at most.
    cache: format of keys and values. given: constants in place of the shipped ones.
    measured: rates in place of those of a datasheet. polls: steps between two looks at who has come (SGLang's
    scheduler-recv-interval). hold: for how long prompts wait for others to be read with (TensorRT-LLM's
    batch_wait_timeout_iters, or attention_dp_config.enable_balance)."""

    spec: ModelSpec
    device: Device | Machine
    engine: Engine
    layout: Layout
    form: Format
    cache: str
    budget: int
    max_running: int
    guessing: Guessing = Guessing()
    given: Constants | None = None
    measured: Rates | None = None
    polls: int = 1
    hold: Hold | None = None

    @cached_property
    def work(self) -> Work:
        return work_of(self.spec)

    @cached_property
    def rank(self) -> Rank:
        """What one GPU holds and does."""
        made = rank_of(self.work, self.layout, self.form, self.cache, self._table())
        made = replace(made, drafting=self.guessing.share if self.guessing.tokens else 0.0)
        return replace(made, towers=0.0) if self.engine.towers_apart else made

    def _table(self) -> float:
        """Elements of a token table that is not the head's too: it is held, and hardly read, or is not the GPU's."""
        tied = getattr(self.spec.head, "tied", False)
        apart = self.engine.table_on_host or tied
        return 0.0 if apart or not self.spec.reads_tokens else float(table_elements(self.spec))

    @cached_property
    def rates(self) -> Rates:
        """What the device reaches."""
        if self.measured is not None:
            return self.measured
        if isinstance(self.device, Machine):
            raise Refused("device", "one of the catalogue where nothing was measured", self.device.name)
        layout, latent = self.layout, self.work.latent
        laid = (layout.pp, layout.attention_dp)
        return rates_of(self.device, self.form, self.engine.name, layout.tp, latent, self.given, *laid)

    def handover(self, to: Service, tokens: float) -> float:
        """Seconds in which what these GPUs cached of a prompt reaches a server of answers: of the two, the GPU that
        holds more of it waits for its own link. Errors: Refused for a device whose links are not known."""
        if isinstance(self.device, Machine):
            raise Refused("device", "one of the catalogue where servers are several", self.device.name)
        fitted = Fitted(self.given or constants_of(self.engine.name))
        link = between_servers(self.device, self.layout.gpus + to.layout.gpus, fitted)
        return max(float(at(each.rank.cached_bytes, tokens)) for each in (self, to)) / link

    @property
    def room(self) -> float:
        """Bytes for keys and values on each GPU."""
        return cache_room(self.rank, self.device, self.engine, self.budget)

    def blocks(self, tokens: float) -> int:
        """Pages of the cache of one replica, counted as sequences of so many tokens take them.

        Errors: Refused for sequences longer than attention is known of.
        """
        return self.own_blocks(tokens) * self.layout.attention_dp

    def own_blocks(self, tokens: float) -> int:
        """Of them, those of one rank of attention, each of which has its own sequences. Errors: as `blocks`."""
        if tokens > LONGEST:
            raise Refused("sequence", f"at most {LONGEST:,} tokens of prompt and answer", f"{tokens:,.0f}")
        if self.room <= 0:
            return 0
        each = self.cached_bytes(tokens)
        pages = math.ceil(tokens / self.engine.block)
        return int(min(self.room / each * pages, ENDLESS)) if each > 0 else ENDLESS

    def cached_bytes(self, tokens: float) -> float:
        """Bytes that a sequence of so many tokens has in the cache of one GPU."""
        return cached_bytes(self.rank, self.engine, tokens)

    def running(self, input: float, output: float) -> float:
        """Sequences of one replica that run at once: what the cache holds of such that are half-way, each with what the
        engine promises it of the other half, or the engine's limit. Errors: Refused as `blocks` does."""
        admission = self.engine.admission
        promised = min(output / 2, admission.most) * admission.least if admission else 0.0
        pages = math.ceil((input + output / 2 + promised) / self.engine.block)
        if self.own_blocks(input + output) < math.ceil((input + output) / self.engine.block):
            return 0.0
        fitting = self.own_blocks(input + output / 2) / pages
        if self.engine.promises_all:
            fitting = math.floor(fitting)  # who would not find room to the end is not let in
        return min(fitting, float(self.max_running)) * self.layout.attention_dp

    def request_seconds(self, input: float) -> float:
        """Seconds of the host for a request ahead of the engine."""
        return request_seconds(self.engine.name, input, self.given)

    def rules(self, tokens: float) -> Rules:
        """What one server goes by, where sequences have so many tokens in the mean."""
        ranks = self.layout.attention_dp
        return Rules(
            budget=self.budget * ranks * self.layout.pp,
            running=self.max_running * ranks,
            block=self.engine.block,
            blocks=self._whole_blocks(tokens),
            mixed=self.engine.mixed,
            chunked=self.engine.chunked,
            accepted=self.guessing.accepted,
            polls=self.polls,
            ahead=self.engine.ahead,
            admission=self.engine.admission,
            hold=self.hold,
            ranks=ranks,
        )

    def _whole_blocks(self, tokens: float) -> int:
        """Pages of all ranks of attention, without what sequences that have to fit one of them leave of each where all
        of their answers are promised room."""
        ranks, own = self.layout.attention_dp, self.own_blocks(tokens)
        each = math.ceil(tokens / self.engine.block)
        if ranks == 1 or not self.engine.promises_all or own < each:
            return own * ranks
        return own // each * each * ranks

    def held(self) -> dict[str, float]:
        """For how long prompts wait for others to be read with, in the words of the closed form."""
        hold = self.hold
        if hold is None:
            return {}
        filled = hold.part * self.budget * self.layout.pp
        return {
            "holding": float(hold.steps),
            "filled": filled,
            "gathered": float(hold.prompts),
            "further": float(hold.further),
        }

    def server(self, tokens: float, shared: Prefixes | None = None) -> Server:
        """A server of that kind, at rest."""
        clock = StepClock(self.rank, self.rates, self.guessing.tokens + 1.0, self.budget)
        return Server(clock, self.rules(tokens), shared)


def service_of(
    spec: ModelSpec,
    gpu: str,
    layout: Layout,
    engine: str = "vllm",
    dtype: str = "bf16",
    cache_dtype: str | None = None,
    budget: int | None = None,
    running: int | None = None,
    guessing: Guessing | None = None,
) -> Service:
    """The service that is meant by those words. Errors: Refused for what is not known, for what the
    engine does not run on or load, and for no such model."""
    rules, device, form = engine_named(engine), load_device(gpu), served_format(dtype)
    if not spec.reads_tokens:
        raise Refused("MODEL", "a model that reads tokens", spec.name)
    cache = cache_dtype or default_cache(rules, form)
    cache_bits(cache)
    check_support(rules, device, form, cache)
    tokens, sequences = rules.limits(device)
    return Service(
        spec,
        device,
        rules,
        layout,
        form,
        cache,
        budget or tokens,
        running or sequences,
        guessing or Guessing(),
    )
