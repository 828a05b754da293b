"""Who says what a model really costs: the reference models, or transformers, built on the meta device and counted."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

from calc.errors import Refused
from calc.query import CHECKPOINTING
from calc.spec import ModelSpec

REFERENCE = "pip install 'transformer-envelope[harness]'"
TRANSFORMERS = "pip install transformers"


class Counted(NamedTuple):
    """What was counted, by the name of the quantity; shapes: of every parameter, None where names are not ours."""

    quantities: Mapping[str, int]
    shapes: Mapping[str, tuple[int, ...]] | None = None


def reference(spec: ModelSpec, batch: int, seq: int) -> Counted:
    """The reference model: `batch` sequences of `seq` tokens, then one more token of each.

    Errors: ImportError without torch, with the command that installs it; NotImplementedError for a block that has no
    module.
    """
    torch = _torch()
    from harness.counter import count
    from reference_models import build
    from reference_models.inputs import example

    model = build(spec, "meta", torch.bfloat16)
    arguments = example(model, batch, seq, images=int(spec.vision is not None))
    found = {"params": sum(p.numel() for p in model.parameters()), "flops.forward": count(lambda: model(**arguments))}
    for mode in CHECKPOINTING:

        def train(mode: Any = mode) -> None:
            out = model(**arguments, checkpointing=mode)
            torch.stack([result.sum() for result in out.results]).sum().backward()

        found[f"flops.training, {mode}"] = count(train)
    cache, static = model.new_cache(), model.new_cache(seq + 1)
    if cache.layers:
        with torch.no_grad():
            prompt, token = example(model, batch, seq), example(model, batch, 1, decode=True)
            model(**prompt, cache=cache)
            found["kv_cache, growing"] = cache.nbytes
            found["flops.decode"] = count(lambda: model(**token, cache=cache))
            model(**prompt, cache=static)
            found["kv_cache, static"] = static.nbytes
    return Counted(found, {name: tuple(p.shape) for name, p in model.named_parameters()})


def transformers(config: dict[str, Any], batch: int, seq: int) -> Counted:
    """transformers' own model of a config.json, for models that read text.

    Errors: ImportError without torch or transformers, with the command that installs it; Refused for a class it lacks.
    """
    torch = _torch()
    try:
        import transformers as hf
    except ImportError:
        raise ImportError(f"--oracle transformers needs transformers: {TRANSFORMERS}") from None
    from harness.counter import count

    hf.logging.set_verbosity_error()
    logging.getLogger("transformers").setLevel(logging.ERROR)
    with warnings.catch_warnings(), torch.device("meta"):
        warnings.simplefilter("ignore")
        model = _class(hf, config)
        prompt, token = _text(torch, model, batch, seq), _text(torch, model, batch, 1)
        found = {"params": sum(p.numel() for p in model.parameters())}
        caches = not model.config.is_encoder_decoder and hasattr(model, "generate")

        def run(arguments: dict[str, Any], cache: Any = None) -> Any:
            # Always with a cache where there may be one: without it the masks look at values, which meta has not.
            if caches:
                cache = hf.DynamicCache(config=model.config) if cache is None else cache
                arguments = arguments | {"use_cache": True, "past_key_values": cache}
            return model(**arguments)

        found["flops.forward"] = count(lambda: run(prompt))
        found["flops.training, none"] = count(lambda: _logits(run(prompt)).sum().backward())
        if caches:
            cache = hf.DynamicCache(config=model.config)
            run(prompt, cache)
            found["kv_cache, growing"] = _bytes(cache)
            found["flops.decode"] = count(lambda: run(token, cache))
    return Counted(found)


def _class(hf: Any, config: dict[str, Any]) -> Any:
    """The model class that `architectures` names, else the causal language model."""
    parsed = hf.AutoConfig.for_model(**config)
    name = (config.get("architectures") or [None])[0]
    options: dict[str, Any] = {"attn_implementation": "eager"}
    if hasattr(parsed, "num_experts_per_tok"):
        # The counter does not know grouped products.
        options["experts_implementation"] = "batched_mm"
    cls = hf.AutoModelForCausalLM if name is None else getattr(hf, name, None)
    if cls is None:
        raise Refused("architectures", "a class of the installed transformers", name)
    build = cls.from_config if name is None else cls._from_config
    return build(parsed, dtype="bfloat16", **options).eval()


def _text(torch: Any, model: Any, batch: int, seq: int) -> dict[str, Any]:
    tokens = torch.zeros(batch, seq, dtype=torch.long)
    if model.main_input_name != "input_ids":
        raise Refused("MODEL", "a model that reads tokens, for --oracle transformers", model.main_input_name)
    return {"input_ids": tokens} | ({"decoder_input_ids": tokens} if model.config.is_encoder_decoder else {})


def _logits(out: Any) -> Any:
    return out.logits if hasattr(out, "logits") else out[0]


def _bytes(cache: Any) -> int:
    """Bytes of the tensors that the layers of a DynamicCache hold, whatever kind they are."""
    tensors = {id(t): t for layer in cache.layers for t in vars(layer).values() if hasattr(t, "element_size")}
    return sum(t.numel() * t.element_size() for t in tensors.values() if t.dim() > 1)


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        raise ImportError(f"verify needs torch: {REFERENCE}") from None
    return torch
