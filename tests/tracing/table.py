"""Which types of transformers can be traced: `python -m tests.tracing.table > rows` tries all of them, or those named,
and `python -m tests.tracing.table --page < rows` makes of that what stands in docs/tracing.md.

Each type is built from its class's defaults with two layers to a stack, traced, and compared with what PyTorch itself
says of the same module: elements of its parameters, FLOPs by torch.utils.flop_counter, and, of a model that fits, the
bytes that autograd keeps of a pass with numbers, in fp32.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from calc.architectures.families import FAMILIES
from calc.errors import Refused
from calc.quantities.flops import forward
from calc.quantities.parameters import parameters
from calc.spec.load import Load

SECONDS = 40
"""The longest that one type may take, of a processor's time: a busy machine changes no verdict."""
LAYERS = ("num_hidden_layers", "num_layers", "n_layer", "n_layers", "encoder_layers", "decoder_layers", "depth")
LAYERS += ("num_encoder_layers", "num_decoder_layers", "num_attention_layers")
BATCH, SEQ = 2, 32
MOST = 1_500_000_000
"""Parameters of the largest model that is made with numbers, 4 bytes each."""


def types() -> list[str]:
    from transformers.models.auto import configuration_auto

    known: Any = configuration_auto
    return sorted(known.CONFIG_MAPPING_NAMES)


def small(config: Any) -> dict[str, Any]:
    """The words that leave two layers to each stack of a config's defaults."""
    words: dict[str, Any] = {}
    for key, value in vars(config).items():
        if key in LAYERS and isinstance(value, int) and not isinstance(value, bool) and value > 2:
            words[key] = 2
        elif hasattr(value, "to_dict") and (inner := small(value)):
            own: Any = value
            words[key] = {"model_type": own.model_type, **inner} if own.model_type else inner
    return words


def raw_config(model_type: str) -> dict[str, Any]:
    """A small config.json of a type, or its defaults where it cannot be made small."""
    import transformers

    from calc.tracing.building import config_of, quiet

    with quiet():
        usual = transformers.AutoConfig.for_model(model_type)
    raw = {"model_type": model_type, **small(usual)}
    try:
        config_of(raw)
    except Refused:
        return {"model_type": model_type}
    return raw


def counted_by_torch(raw: dict[str, Any]) -> tuple[int, int]:
    """(elements of all parameters, FLOPs of a forward pass) of the same class, as PyTorch counts them."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils.flop_counter import FlopCounterMode

    from calc.tracing.building import config_of, module_of, quiet
    from calc.tracing.dispatch import fakes
    from calc.tracing.inputs import inputs_for
    from calc.tracing.model import DTYPES

    # Written out, since it knows no attention kernel of CPUs.
    module, mode = module_of(config_of(raw), "eager"), FakeTensorMode(allow_non_fake_inputs=True)
    elements = sum(p.numel() for p in module.parameters())
    fakes(module, mode, DTYPES["bf16"])
    module.config.dtype = DTYPES["bf16"]
    import torch

    _grouped._get_raw = True  # type: ignore[attr-defined]
    _attention._get_raw = True  # type: ignore[attr-defined]
    attention = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    experts = {torch.ops.aten._grouped_mm: _grouped, attention: _attention}
    with quiet(), mode, FlopCounterMode(display=False, custom_mapping=experts) as counter:
        module(**inputs_for(module, Load(batch=BATCH, seq=SEQ)))
    return elements, counter.get_total_flops()


def _grouped(x: Any, weight: Any, *args: Any, out_val: Any = None, **kwargs: Any) -> int:
    """Rows [visits, k], each with a matrix [k, n]: the counter has no formula of its own."""
    return 2 * x.shape[0] * x.shape[1] * weight.shape[-1]


def _attention(q: Any, k: Any, v: Any, *args: Any, out_val: Any = None, **kwargs: Any) -> int:
    """A kernel of CPUs for [batch, heads, queries, d_head], told as those of GPUs."""
    from torch.utils.flop_counter import sdpa_flop_count

    return sdpa_flop_count(q.shape, k.shape, v.shape)


def kept_by_torch(raw: dict[str, Any]) -> int:
    """Bytes that autograd keeps of a forward pass of the same class with numbers, in fp32."""
    import torch
    from transformers.initialization import no_init_weights

    from calc.tracing.building import config_of, module_of, quiet
    from calc.tracing.inputs import inputs_for
    from reference_models.saved import saved_tensors

    # Weights that nothing was written to take no memory.
    with no_init_weights():
        module = module_of(config_of(raw), "sdpa", "cpu")
    module.config.dtype = torch.float32
    given = inputs_for(module, Load(batch=BATCH, seq=SEQ))
    # What is made without numbers is given some, lest a pass over nothing ends early.
    given = {
        key: torch.randn_like(x) if torch.is_tensor(x) and x.is_floating_point() else x for key, x in given.items()
    }
    with quiet():
        return saved_tensors(module, lambda: module(**given)).total


def kept_here(spec: Any) -> int:
    """The same bytes as the record has them, but for the loss, which no pass without labels has."""
    from calc.quantities.saved_tensors import saved_tensors
    from calc.trace.settings import Settings

    found = saved_tensors(spec, Load(batch=BATCH, seq=SEQ), Settings("sdpa", "fp32", device="cpu"))
    loss = {id(each) for each in found.loss}
    return int(sum(times * each.tensor.bytes for times, each in found.everything() if id(each) not in loss))


def verdict(model_type: str) -> str:
    """`yes`, what differs from PyTorch's own count, or why a type cannot be traced, in a few words."""
    from calc.tracing.building import one_line
    from calc.tracing.model import from_transformers

    try:
        with _within(SECONDS):
            try:
                raw = raw_config(model_type)
            except Exception as error:  # of transformers' own, for the defaults of its own class
                return f"config: {one_line(error)}"
            spec = from_transformers(raw, model_type)
            load = Load(batch=BATCH, seq=SEQ)
            ours = sum(parameters(spec).values()), forward(spec, load).total
            try:
                theirs = counted_by_torch(raw)
                kept = kept_by_torch(raw) - kept_here(spec) if ours[0] <= MOST else None
            except Exception as error:
                return f"not compared: {one_line(error)}"
    except Refused as refusal:
        return f"{refusal.field}: {refusal.found}"
    except TimeoutError:
        return f"takes longer than {SECONDS} s"
    if ours != theirs:
        return f"differs: {ours} against {theirs}"
    return "yes" if kept == 0 else "yes, too large to make" if kept is None else f"yes, but {kept:+,} bytes are kept"


@contextmanager
def _within(seconds: int) -> Iterator[None]:
    def late(signum: int, frame: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


REASONS = (
    ("yes, too", "trace, parameters and FLOPs equal; too large to be made with numbers here"),
    ("yes, but", "trace, parameters and FLOPs equal, bytes kept not"),
    ("yes", "trace, parameters, FLOPs and bytes kept equal"),
    ("differs", "differ from PyTorch's own count"),
    ("not compared", "trace, and PyTorch's own count of them does not run"),
    ("per-layer", "have sizes that differ from layer to layer, which are not told as one"),
    ("an input called", "read inputs whose shapes do not follow from their config"),
    ("--traced: aten.", "run operations whose products are not counted (recurrent networks and the like)"),
    ("DataDependent", "decide by what a tensor holds"),
    ("DynamicOutput", "decide by what a tensor holds"),
    ("ImportError", "need a package beside transformers (timm, natten, detectron2, …)"),
    ("TimeoutError", "take longer than 40 s at these lengths (a loop over tokens in Python)"),
    ("takes longer", "take longer than 40 s at these lengths (a loop over tokens in Python)"),
    ("model_type", "have no class of their own in transformers that runs"),
    ("config", "are not built from the defaults of their class, which leave sizes open"),
    ("", "do not run on the inputs that are made for them, or from their class's defaults"),
)
"""Words of a verdict -> what they mean of a type; the first that stand in it count."""


def reason(said: str) -> str:
    """What a verdict means, in the words of the page."""
    return next(meaning for words, meaning in REASONS if words in said)


def page(rows: list[str]) -> str:
    """The rows of a run as the page has them: types by what became of them."""
    found: dict[str, list[str]] = {}
    for row in rows:
        cells = row.split("|")
        if len(cells) >= 4 and cells[1].strip().startswith("`"):
            found.setdefault(reason("|".join(cells[3:]).strip(" |\n")), []).append(cells[1].strip())
    order = ["trace, parameters, FLOPs and bytes kept equal", *(meaning for _, meaning in REASONS)]
    lines = ["| types that | how many | |", "|---|---:|---|"]
    for meaning in sorted(found, key=order.index):
        lines.append(f"| {meaning} | {len(found[meaning])} | {', '.join(sorted(found[meaning]))} |")
    return "\n".join(lines)


def main() -> None:
    if sys.argv[1:] == ["--page"]:
        print(page(sys.stdin.readlines()))
        return
    for model_type in sys.argv[1:] or types():
        by_hand = "by hand" if model_type in FAMILIES else ""
        print(f"| `{model_type}` | {by_hand} | {verdict(model_type)} |", flush=True)


if __name__ == "__main__":
    main()
