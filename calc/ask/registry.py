"""The quantities that can be asked for, each a fold over the tree of ops (or a convention's own formula)."""

from __future__ import annotations

from calc.ask import terms
from calc.ask.quantity import Quantity
from calc.errors import Refused, did_you_mean
from calc.quantities.cache_sources import cache_source
from calc.quantities.kv_cache import cache_terms, cache_widths
from calc.quantities.weights import in_width, plain_width

_INPUTS = ("source_seq", "images", "image")
_SPREAD = ("dp", "tp", "pp", "cp", "ep", "expert_tp", "sequence_parallel", "stages")
OF_TRAINING = (
    "document",
    "recipe",
    "gradient_dtype",
    "fp8_recipe",
    "fp8_param_gather",
    "optimizer",
    "precision_aware",
    "offload",
    "offload_fraction",
    "offload_layers",
    "dropout",
    "device",
    "fused_loss",
    "recompute",
    "checkpointing",
    "checkpoint_every",
    "loss_chunks",
    "zero",
    "micro_batches",
    "interleave",
    "schedule",
    "frozen",
)
"""What changes the memory of training alone."""
OF_INFERENCE = (
    "dtype",
    "cache_dtype",
    "engine",
    "batched_tokens",
    "logits",
    "state_dtype",
    "latent_reading",
    "window_reading",
)
"""What changes the memory of inference alone."""
MEMORY_USES = (
    "mode",
    "batch",
    "seq",
    *_INPUTS,
    "execution",
    "stack",
    "cluster",
    "experts",
    "rank",
    *_SPREAD,
    *OF_TRAINING,
    *OF_INFERENCE,
)
"""What memory depends on, trained or served."""

QUANTITIES = (
    Quantity(
        "params",
        "parameters",
        "elements of all weight tensors, tied weights once",
        "sum over the operators' weight shapes",
        ("convention", "mtp"),
        terms.params,
    ),
    Quantity(
        "params.active",
        "parameters",
        "total less the routed experts that a token does not visit",
        "routed experts times top_k / n_experts (Shazeer et al. 2017, arXiv:1701.06538)",
        ("mtp",),
        terms.active,
    ),
    Quantity(
        "params.trainable",
        "parameters",
        "total less the frozen weights: an adapter's alone, where there is one",
        "sum over the trained operators' weight shapes (Hu et al. 2021, arXiv:2106.09685, section 4.2)",
        ("mtp",),
        terms.trainable,
    ),
    Quantity(
        "flops.forward",
        "FLOP",
        "one forward pass over the batch",
        "two FLOPs for each multiply-accumulate of every product that runs (Kaplan et al. 2020, section 2.1)",
        ("batch", "seq", "convention", "mtp", *_INPUTS, "document"),
        terms.flops("forward"),
    ),
    Quantity(
        "flops.prefill",
        "FLOP",
        "reading prompts: as flops.forward, with logits of each sequence's last token alone",
        "as flops.forward; the first new token is drawn from the last position's logits",
        ("batch", "seq", "convention", "mtp", *_INPUTS),
        terms.flops("prefill"),
    ),
    Quantity(
        "flops.training",
        "FLOP",
        "forward, backward and recomputation of one step over the batch",
        "two more products for each of the forward pass (Kaplan et al. 2020, section 2.1), and recomputation",
        ("batch", "seq", "convention", "checkpointing", "mtp", *_INPUTS, "document"),
        terms.flops("training"),
    ),
    Quantity(
        "flops.decode",
        "FLOP",
        "one new token for each sequence, with `context` tokens in the cache",
        "as flops.forward, for one run over the cached keys and its own",
        ("batch", "context", "convention", "source_seq", "latent_reading"),
        terms.flops("decode"),
    ),
    Quantity(
        "kv_cache",
        "bytes",
        "keys and values kept for later tokens, for the batch",
        "2 * n_kv_heads * d_head elements a token and layer (Shazeer 2019, arXiv:1911.02150)",
        ("batch", "seq", "dtype", "cache_dtype", "window_reading", "source_seq", "state_dtype"),
        cache_terms,
        cache_source,
        cache_widths,
        lambda spec, run, widths: cache_terms(spec, run, widths=widths),
    ),
    Quantity(
        "weights",
        "bytes",
        "memory of all parameters in one number format",
        "params times the bits of dtype; quantized matrices with their scales and zero points",
        ("dtype",),
        terms.weights,
        widths=plain_width,
        in_widths=lambda spec, run, widths: in_width(spec, widths["b_dtype"]),
    ),
    Quantity(
        "traffic.forward",
        "bytes",
        "read from and written to a device's memory in one forward pass over the batch",
        "each kernel reads its operands and writes its result once (Williams et al. 2009, Roofline, section 3)",
        ("batch", "seq", "dtype", "execution", "experts", "routing", "mtp", *_INPUTS, "document"),
        terms.traffic("forward"),
        widths=terms.traffic_widths,
        in_widths=terms.traffic_in("forward"),
    ),
    Quantity(
        "traffic.training",
        "bytes",
        "as traffic.forward, of forward, recomputation and backward of one step; without loss and optimizer",
        "as traffic.forward; going back each operand is read once more and each gradient written once",
        ("batch", "seq", "dtype", "execution", "experts", "routing", "checkpointing", "mtp", *_INPUTS, "document"),
        terms.traffic("training"),
        widths=terms.traffic_widths,
        in_widths=terms.traffic_in("training"),
    ),
    Quantity(
        "traffic.decode",
        "bytes",
        "as traffic.forward, for one new token of each sequence, with `context` tokens in the cache",
        "weights and cache once a token (Pope et al. 2022, arXiv:2211.05102, section 2.1)",
        ("batch", "context", "dtype", "execution", "experts", "routing", "source_seq", "latent_reading", "state_dtype"),
        terms.traffic("decode"),
        widths=terms.traffic_widths,
        in_widths=terms.traffic_in("decode"),
    ),
    Quantity(
        "memory.total",
        "bytes",
        "all that a GPU holds in a training step or in serving, whenever each is live; of that with the highest peak",
        "sum over the tensors that are kept (Korthikanti et al. 2022, arXiv:2205.05198; Rajbhandari et al. 2019)",
        MEMORY_USES,
        terms.memory_total,
        widths=terms.total_widths,
        in_widths=terms.total_in_widths,
    ),
    Quantity(
        "memory.peak",
        "bytes",
        "the most that is live at once in a training step or in serving, on the GPU that holds the most",
        "the highest moment of forward, loss, backward and optimizer step, or of prefill and decode",
        MEMORY_USES,
        terms.memory_peak,
    ),
)
BY_NAME = {quantity.name: quantity for quantity in QUANTITIES}


def find(name: str) -> Quantity:
    """The quantity called `name`. Errors: Refused, with the known names."""
    if name not in BY_NAME:
        raise Refused("QUANTITY", f"one of {', '.join(BY_NAME)}{did_you_mean(name, BY_NAME)}", name)
    return BY_NAME[name]
