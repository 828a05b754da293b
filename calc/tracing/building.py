"""From a config.json to transformers' own class of its `model_type`, built where tensors have no memory.

Never code that comes with a model: the class is transformers', by `model_type`; `auto_map` and whatever names a kernel,
a backbone or an attention to be fetched is left out.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from copy import deepcopy
from importlib import import_module
from io import StringIO
from typing import Any

from calc.errors import Refused, show

LEFT_OUT = (
    "auto_map",
    "attn_implementation",
    "_attn_implementation",
    "_attn_implementation_internal",
    "_attn_implementation_autoset",
    "experts_implementation",
    "_experts_implementation",
    "_experts_implementation_internal",
    "quantization_config",
    "compression_config",
    "use_kernels",
    "trust_remote_code",
    "torch_dtype",
    "dtype",
    "custom_pipelines",
    "_name_or_path",
    "name_or_path",
    "_commit_hash",
    "use_cache",
)
"""Keys of a config that say how a model runs or where from, and not what it is."""
FETCHED = ("use_pretrained_backbone", "use_timm_backbone", "load_pretrained")
"""Keys that fetch something where they are true."""
LAYERS = ("layer", "block", "depth", "expert", "stage", "level")
MOST_LAYERS = 1024
MOST = 2**31
MOST_NUMBERS = 100_000
"""Numbers and words of a config in all."""
HEADS = (
    "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_FOR_MASKED_LM_MAPPING_NAMES",
    "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES",
    "MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES",
    "MODEL_MAPPING_NAMES",
    "MODEL_FOR_PRETRAINING_MAPPING_NAMES",
    "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES",
    "MODEL_FOR_OBJECT_DETECTION_MAPPING_NAMES",
)
"""Tables of classes, in the order in which one is looked for where a config names none."""


@contextmanager
def quiet() -> Iterator[None]:
    """Nothing that transformers says of a stranger's config reaches the terminal, and no network is asked."""
    offline = os.environ.get("HF_HUB_OFFLINE")
    os.environ["HF_HUB_OFFLINE"] = "1"
    try:
        with warnings.catch_warnings(), redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            warnings.simplefilter("ignore")
            transformers = needed()
            before = transformers.utils.logging.get_verbosity()
            transformers.utils.logging.set_verbosity(50)
            disabled = logging.root.manager.disable
            logging.disable(logging.CRITICAL)
            try:
                yield
            finally:
                logging.disable(disabled)
                transformers.utils.logging.set_verbosity(before)
    finally:
        if offline is None:
            del os.environ["HF_HUB_OFFLINE"]
        else:
            os.environ["HF_HUB_OFFLINE"] = offline


def needed() -> Any:
    """transformers. Errors: Refused where the extra is missing."""
    try:
        import torch  # noqa: F401
        import transformers
    except ImportError:
        hint = "the extra: pip install -e '.[trace]' in a clone"
        raise Refused("--traced", hint, "no torch or transformers") from None
    return transformers


def cleaned(raw: Any, where: str = "", *, count: list[int] | None = None) -> Any:
    """A config without what says how it runs, each number within bounds.

    Errors: Refused for sizes beyond those that any model has, and for what would be fetched.
    """
    count = [0] if count is None else count
    count[0] += 1
    if count[0] > MOST_NUMBERS:
        raise Refused("config", f"at most {MOST_NUMBERS:,} values", "more")
    if isinstance(raw, dict):
        for key in FETCHED:
            if raw.get(key):
                raise Refused(f"{where}{key}", "false (nothing is fetched)", raw[key])
        read = {key: value for key, value in raw.items() if key not in LEFT_OUT}
        for key, value in read.items():
            _check_bound(key, value, where)
        return {key: cleaned(value, f"{where}{key}.", count=count) for key, value in read.items()}
    if isinstance(raw, list):
        return [cleaned(each, where, count=count) for each in raw]
    return raw


def _check_bound(key: str, value: Any, where: str) -> None:
    """Errors: Refused for more layers, or larger sizes, than any model has."""
    if isinstance(value, int) and not isinstance(value, bool):
        most = MOST_LAYERS if any(word in key for word in LAYERS) and "size" not in key and "dim" not in key else MOST
        if abs(value) > most and not key.endswith("token_id"):
            raise Refused(f"{where}{key}", f"at most {most:,}", value)


def config_of(raw: dict[str, Any]) -> Any:
    """transformers' config object. Errors: Refused for a type that it does not know, and for what it refuses."""
    transformers = needed()
    from transformers.models.auto import configuration_auto

    known: Any = configuration_auto

    model_type = raw.get("model_type")
    if not isinstance(model_type, str) or model_type not in known.CONFIG_MAPPING_NAMES:
        raise Refused("model_type", f"a type that transformers {transformers.__version__} knows", show(model_type))
    plain = {key: value for key, value in cleaned(raw).items() if key != "model_type"}
    with quiet():
        try:
            return transformers.AutoConfig.for_model(model_type, **plain)
        except Exception as error:
            raise Refused("config", f"what transformers reads as {model_type}", one_line(error)) from None


def class_of(config: Any) -> Any:
    """The class that the config names, where it is transformers' own for that config, or the usual one."""
    import transformers
    from transformers.models.auto import modeling_auto

    named = config.architectures
    model_type = config.model_type
    if named:
        own = getattr(transformers, str(named[0]), None) if len(named) == 1 else None
        if not isinstance(own, type) or not hasattr(own, "_from_config") or not str(named[0]).isidentifier():
            raise Refused("architectures", "one class of transformers", show(named[0] if len(named) == 1 else named))
        if not isinstance(config, getattr(own, "config_class", None) or ()):
            raise Refused("architectures", f"a class for {model_type}", str(named[0]))
        return own
    listed: list[Any] = []
    for table in HEADS:
        name = getattr(modeling_auto, table).get(model_type)
        found = (getattr(transformers, each, None) for each in ((name,) if isinstance(name, str) else name or ()))
        listed += [own for own in found if own is not None]
    for own in (*(own for own in listed if getattr(own, "config_class", None) is type(config)), *_unlisted(config)):
        return own
    # A type without classes of its own runs as another: InternLM3 as Llama.
    for own in listed:
        return own
    raise Refused("model_type", "a type with a model in transformers", model_type)


def _unlisted(config: Any) -> Iterator[Any]:
    """Classes for this config in the file of models beside the config's own, the plainest names first: of a part of a
    model, which no table lists."""
    home = type(config).__module__
    if not home.startswith("transformers.models."):
        return
    try:
        there = vars(import_module(home.replace(".configuration_", ".modeling_")))
    except ImportError:
        return
    own = [each for each in there.values() if isinstance(each, type) and hasattr(each, "_from_config")]
    found = [each for each in own if getattr(each, "config_class", None) is type(config) and "forward" in vars(each)]
    yield from sorted(found, key=lambda each: (not each.__name__.endswith("Model"), len(each.__name__)))


def module_of(config: Any, attention: str, device: str = "meta") -> Any:
    """The module on a device, without dropout, attention in one kernel where the class knows how.

    Errors: Refused for what transformers refuses.
    """
    import torch

    try:
        own = class_of(config)
    except ImportError as error:
        raise Refused("--traced", "a class whose packages are installed", one_line(error)) from None
    # Experts run as one product of groups, whose sizes do not depend on which expert a token chooses.
    ways = [(kernel, experts) for kernel in dict.fromkeys((attention, "eager")) for experts in ("grouped_mm", None)]
    refusal: Exception | None = None
    with quiet(), torch.device(device):
        for kernel, experts in ways:
            how = {} if experts is None else {"experts_implementation": experts}
            try:
                return own._from_config(_undropped(deepcopy(config)), attn_implementation=kernel, **how).train()
            except ValueError as error:
                refusal = error
            except Exception as error:
                refusal = error
                break
    raise Refused("config", f"what {own.__name__} is built from", one_line(refusal or ValueError())) from None


def _undropped(config: Any) -> Any:
    """The config with every probability of dropout 0: training keeps no masks unless it is asked to."""
    for section in (config, *(v for v in vars(config).values() if hasattr(v, "to_dict"))):
        for key, value in list(vars(section).items()):
            if ("drop" in key or key == "mask_time_prob") and isinstance(value, float):
                setattr(section, key, 0.0)
            if key == "use_cache":
                setattr(section, key, False)
    return config


def one_line(error: BaseException) -> str:
    """What an error says, in one line."""
    text = " ".join(str(error).split())[:300]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
