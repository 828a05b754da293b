"""Services that several tests ask about."""

from __future__ import annotations

from calc.architectures.models import load_model
from calc.serve.layout import layout_of
from calc.serve.service import Service, service_of


def llama(tp: int = 1, engine: str = "vllm", gpu: str = "h100-sxm", dtype: str = "bf16", pp: int = 1) -> Service:
    """Llama-3.1-8B on some GPUs."""
    spec = load_model("llama-3.1-8b")
    return service_of(spec, gpu, layout_of(spec, tp=tp, pp=pp), engine, dtype)
