"""transformers' own models, built from a config.json on the meta device, run and counted.

What keeps such a model from running there, or from being counted for what it is, is corrected here, listed by name.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from inspect import signature
from typing import Any

from calc.errors import Refused
from harness.oracles import Counted, torch_or_hint

TRANSFORMERS = "pip install transformers"


def transformers(config: dict[str, Any], batch: int, seq: int, picture: tuple[int, int] | None = None) -> Counted:
    """transformers' own model of a config.json: a forward pass, a training step, one more token and the cache.

    It reads `batch` sequences of `seq` tokens or samples; or `batch` pictures, of the height and width that `picture`
    says; CLIP one of them beside the texts.
    Errors: ImportError without torch or transformers, with the command that installs it; Refused for a class that
    transformers lacks, or one that does not run on the meta device.
    """
    torch = torch_or_hint()
    try:
        import transformers as hf
    except ImportError:
        raise ImportError(f"--oracle transformers needs transformers: {TRANSFORMERS}") from None
    hf.logging.set_verbosity_error()
    logging.getLogger("transformers").setLevel(logging.ERROR)
    with warnings.catch_warnings(), torch.device("meta"):
        warnings.simplefilter("ignore")
        model = _class(hf, config)
        _correct(model)
        given = _inputs(torch, model, batch, seq, picture)
        found = {"params": sum(p.numel() for p in model.parameters())}
        try:
            return Counted(found | _run(hf, model, given))
        except Exception as error:
            # Code of others that looks at values, which meta has not, fails in ways of its own.
            what = f"{type(error).__name__}: {error}".partition("\n")[0][:120]
            raise Refused("MODEL", "a model that transformers runs on the meta device", what) from error


def _run(hf: Any, model: Any, given: dict[str, Any]) -> dict[str, int]:
    """Every quantity by its name. Models that may keep a cache always get one: without it the masks look at values."""
    from harness.counter import count

    recurrent = "cache_params" in signature(model.forward).parameters
    caches = hasattr(model, "generate")

    def step(arguments: Mapping[str, Any], cache: Any = None) -> Any:
        if not caches:
            return model(**arguments)
        cache = _new_cache(hf, model) if cache is None else cache
        # Switch's encoder refuses to be asked for one; encoder-decoders are asked by their configs.
        options = {} if model.config.is_encoder_decoder else {"use_cache": True}
        return model(**arguments, **options, **{"cache_params" if recurrent else "past_key_values": cache})

    found = {"flops.forward": count(lambda: step(given))}
    # A recurrent state that is kept passes no gradient back.
    train = model if recurrent else lambda **arguments: step(arguments)
    found["flops.training, none"] = count(lambda: _sum(train(**given)).backward())
    if not caches:
        return found
    cache = _new_cache(hf, model)
    out = step(given, cache)
    held = _bytes(model.config, cache)
    if not held:  # The first GPT's class takes a cache and leaves it empty.
        return found
    found["kv_cache, growing"] = held
    token = {name: ids[:, :1] for name, ids in given.items() if name.endswith("input_ids")}
    if model.config.is_encoder_decoder:
        encoded = hf.modeling_outputs.MoEModelOutput(last_hidden_state=out.encoder_last_hidden_state)
        token = {"decoder_input_ids": token["decoder_input_ids"], "encoder_outputs": encoded}
    return found | {"flops.decode": count(lambda: step(token, cache))}


def _class(hf: Any, config: dict[str, Any]) -> Any:
    """The model class that `architectures` names, else the language model of such configs.

    Errors: Refused for a class that transformers lacks, and where none is named and there is no such language model.
    """
    parsed = hf.AutoConfig.for_model(**config)
    name = (config.get("architectures") or [None])[0]
    usual = hf.AutoModelForSeq2SeqLM if parsed.is_encoder_decoder else hf.AutoModelForCausalLM
    cls = usual if name is None else getattr(hf, name, None)
    if cls is None:
        raise Refused("architectures", "a class of the installed transformers", name)
    if name is None and type(parsed) not in usual._model_mapping:
        raise Refused("architectures", f"the class of this {parsed.model_type}, which is no language model", "nothing")
    build = cls.from_config if name is None else cls._from_config
    # The counter does not know grouped products.
    options = {"attn_implementation": "eager", "experts_implementation": "batched_mm"}
    # Some constructors name the CPU.
    return build(parsed, dtype="bfloat16", **options).eval().to("meta")


def _inputs(torch: Any, model: Any, batch: int, seq: int, picture: tuple[int, int] | None) -> dict[str, Any]:
    """What the model reads, by the names of its arguments."""
    config, reads, main = model.config, signature(model.forward).parameters, model.main_input_name
    tokens = torch.zeros(batch, seq, dtype=torch.long)
    given = {name: tokens for name in ("input_ids", "decoder_input_ids") if name in reads}
    size: tuple[int, ...] = {
        "pixel_values": (batch, 3, *(picture or ())),
        "input_features": (batch, getattr(config, "num_mel_bins", 0), 2 * getattr(config, "max_source_positions", 0)),
        "input_values": (batch, seq),
    }.get(main, ())
    if config.model_type == "clip":
        main, size = "pixel_values", (1, 3, *(picture or ()))
    elif main != "input_ids" and not size:
        raise Refused("MODEL", "a model that reads tokens, pictures or sound, for --oracle transformers", main)
    return given | ({main: torch.zeros(size, dtype=torch.bfloat16)} if size else {})


def _new_cache(hf: Any, model: Any) -> Any:
    if model.config.is_encoder_decoder:
        return hf.EncoderDecoderCache(hf.DynamicCache(), hf.DynamicCache())
    return hf.DynamicCache(config=model.config.get_text_config())


def _sum(out: Mapping[str, Any]) -> Any:
    """The sum of everything that an objective could read."""
    return sum(each.float().sum() for each in out.values() if getattr(each, "requires_grad", False))


def _bytes(config: Any, cache: Any) -> int:
    """Bytes of the tensors that the layers of a cache hold, whatever kind; keys that are the values too, twice."""
    halves = [cache.self_attention_cache, cache.cross_attention_cache] if config.is_encoder_decoder else [cache]
    tensors = [t for half in halves for layer in half.layers for t in _tensors(vars(layer)) if t.dim() > 1]
    held = sum(t.numel() * t.element_size() for t in tensors)
    if getattr(config, "new_decoder_architecture", False):
        # Falcon's keys and values are copied for every head before they are cached.
        held = held * config.num_kv_heads // config.num_attention_heads
    return held


def _tensors(values: Mapping[Any, Any]) -> Iterator[Any]:
    for each in values.values():
        if isinstance(each, dict):
            yield from _tensors(each)
        elif hasattr(each, "element_size"):
            yield each


def _correct(model: Any) -> None:
    """Give every module that `CORRECTIONS` names its other forward, and let those in `TRAINED` train."""
    for module in model.modules():
        if type(module).__name__ in TRAINED:
            module.train()
        forward = CORRECTIONS.get(type(module).__name__)
        if forward is not None:
            module.forward = forward.__get__(module)


def _visited_experts(self: Any, x: Any) -> Any:
    """Llama 4 runs all experts on all tokens and hides most of it: here as many rows as tokens visit (top_k is 1)."""
    from torch.nn.functional import pad

    n_experts = len(self.gate_up_proj)
    rows = len(x) // n_experts
    gate, up = (x[:rows] @ self.gate_up_proj[0]).chunk(2, dim=-1)
    return pad((up * self.act_fn(gate)) @ self.down_proj[0], (0, 0, 0, len(x) - rows))


def _one_expert(self: Any, x: Any, chosen: Any, weights: Any) -> Any:
    """Switch looks up which expert each token goes to, which meta does not know: the first costs as much as any."""
    return self.expert_0(x) * weights


CORRECTIONS: dict[str, Callable[..., Any]] = {
    "Llama4TextExperts": _visited_experts,
    "SwitchTransformersExperts": _one_expert,
}
"""Class in transformers -> a forward that costs what tokens visit."""

TRAINED = {"Wav2Vec2GumbelVectorQuantizer"}
"""Classes that pass a gradient only while they train: this one then draws its codes softly."""
