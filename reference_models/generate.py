"""Generation: a prompt is read in parallel, or token by token, and then continued one token at a time.

Every function works on any model that `build` gives, encoder-decoders included (hand over `source`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from reference_models.cache import Cache
from reference_models.model import Model

Choose = Callable[[Tensor], Tensor]
"""Logits [batch, vocab_size] -> the next token of each sequence, [batch]."""


def greedy(logits: Tensor) -> Tensor:
    """The likeliest token."""
    return logits.argmax(-1)


def sampler(
    temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None, generator: Any = None
) -> Choose:
    """A token drawn at random from softmax(logits / temperature); at temperature 0 the likeliest.

    top_k: only from the k likeliest (Fan et al. 2018). top_p: only from the fewest whose probabilities reach p together
    (Holtzman et al. 2020). Errors: ValueError for numbers that leave no token to draw.
    """
    if not 0 <= temperature < torch.inf:
        raise ValueError(f"temperature: expected a number from 0 on, found {temperature}")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k: expected at least 1 token, found {top_k}")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p: expected a probability above 0, up to 1, found {top_p}")
    if temperature == 0:
        return greedy

    def choose(logits: Tensor) -> Tensor:
        probabilities = (candidates(logits, top_k, top_p) / temperature).softmax(-1)
        return torch.multinomial(probabilities, 1, generator=generator)[:, 0]

    def candidates(logits: Tensor, k: int | None, p: float | None) -> Tensor:
        if k is not None:
            least = logits.topk(min(k, logits.shape[-1])).values[:, -1:]
            logits = logits.masked_fill(logits < least, -torch.inf)
        if p is None:
            return logits
        ordered, places = logits.sort(-1, descending=True)
        shares = (ordered / temperature).softmax(-1)
        # A token stays where those before it do not reach p; so the likeliest always does.
        outside = shares.cumsum(-1) - shares >= p
        return logits.masked_fill(outside.scatter(-1, places, outside), -torch.inf)

    return choose


@torch.no_grad()
def generate(
    model: Model,
    prompt: Tensor,
    new_tokens: int,
    choose: Choose = greedy,
    *,
    end: int | None = None,
    prefill: Literal["parallel", "sequential"] = "parallel",
    cache: Cache | None = None,
    keep: Tensor | None = None,
    **inputs: Any,
) -> Tensor:
    """`new_tokens` more tokens for each sequence: [batch, new_tokens], fewer once all have ended.

    prompt: [batch, seq]. keep: False where it is padded, on the left (see `padded`). end: the token that ends a
    sequence; what follows it is `end` again. cache: of an earlier call, whose sequences the prompt continues.
    inputs: what else the model reads (source, source_keep).
    """
    cache = model.new_cache() if cache is None else cache
    logits = read(model, prompt, cache, prefill, keep, **inputs)
    made: list[Tensor] = []
    ended = torch.zeros(len(prompt), dtype=torch.bool, device=prompt.device)
    for i in range(new_tokens):
        token = choose(logits)
        if end is not None:
            token = token.masked_fill(ended, end)
            ended = ended | (token == end)
        made.append(token)
        # The last token is read too, so that the cache can be continued.
        logits = step(model, token, cache)
        if bool(ended.all()) and i + 1 < new_tokens:
            break
    return torch.stack(made, dim=1)


@torch.no_grad()
def read(
    model: Model, prompt: Tensor, cache: Cache, prefill: str = "parallel", keep: Tensor | None = None, **inputs: Any
) -> Tensor:
    """Fill the cache with the prompt, in one pass or token by token; the last token's logits, [batch, vocab_size]."""
    if prefill == "parallel":
        return _last(model(prompt, cache=cache, keep=keep, **inputs))
    logits = prompt
    for i in range(prompt.shape[1]):
        own = None if keep is None else keep[:, i : i + 1]
        logits = _last(model(prompt[:, i : i + 1], cache=cache, keep=own, **(inputs if i == 0 else {})))
    return logits


def step(model: Model, token: Tensor, cache: Cache) -> Tensor:
    """One decoding step: token [batch] -> logits of the next, [batch, vocab]."""
    return _last(model(token[:, None], cache=cache))


class Beam(NamedTuple):
    """One hypothesis: its tokens (without the prompt), their summed log-probability, and the score it is ranked by."""

    tokens: list[int]
    log_probability: float
    score: float


@torch.no_grad()
def beam_search(
    model: Model,
    prompt: Tensor,
    new_tokens: int,
    width: int,
    *,
    end: int | None = None,
    length_penalty: float = 0.0,
    **inputs: Any,
) -> list[Beam]:
    """The `width` best continuations of one prompt [1, seq], best first.

    Scores are log-probability / ((5 + length) / 6) ** length_penalty (Wu et al. 2016, arXiv:1609.08144, section 7):
    with 0 the plain sum, which favours short ones.
    """

    def scored(tokens: list[int], total: float) -> Beam:
        return Beam(tokens, total, total / ((5 + len(tokens)) / 6) ** length_penalty)

    cache = model.new_cache()
    logits = read(model, prompt, cache, **inputs)
    alive, finished = [Beam([], 0.0, 0.0)], []
    for _ in range(new_tokens):
        totals = logits.log_softmax(-1) + logits.new_tensor([beam.log_probability for beam in alive])[:, None]
        # Twice the width, so that enough go on where the best have ended.
        best, places = totals.flatten().topk(min(2 * width, totals.numel()))
        going: list[tuple[int, Beam]] = []
        for total, place in zip(best.tolist(), places.tolist(), strict=True):
            row, token = divmod(place, totals.shape[-1])
            beam = scored([*alive[row].tokens, token], total)
            if token == end:
                finished.append(beam)
            elif len(going) < width:
                going.append((row, beam))
        alive = [beam for _, beam in going]
        if not alive:
            break
        cache.reorder(torch.tensor([row for row, _ in going], device=prompt.device))
        logits = step(model, torch.tensor([beam.tokens[-1] for beam in alive], device=prompt.device), cache)
    return sorted([*finished, *alive], key=lambda beam: -beam.score)[:width]


def padded(prompts: Sequence[Sequence[int]], padding: int = 0) -> tuple[Tensor, Tensor]:
    """Prompts of different lengths as one batch: (tokens, keep), both [batch, longest], padded on the left."""
    longest = max(map(len, prompts))
    tokens = torch.tensor([[padding] * (longest - len(p)) + list(p) for p in prompts])
    keep = torch.tensor([[False] * (longest - len(p)) + [True] * len(p) for p in prompts])
    return tokens, keep


def _last(out: Any) -> Tensor:
    if out.logits is None:
        raise ValueError("logits: expected a model with a head over its vocabulary, found one without")
    return out.logits[:, -1]
