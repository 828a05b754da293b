"""The tools that plans are written for."""

from __future__ import annotations

from calc.errors import Refused, did_you_mean
from calc.plan.export.accelerate import ACCELERATE
from calc.plan.export.deepspeed import DEEPSPEED
from calc.plan.export.fsdp2 import FSDP2
from calc.plan.export.launch import Tool
from calc.plan.export.megatron_core import MEGATRON_CORE
from calc.plan.export.nemo import NEMO
from calc.plan.export.torchtitan import TORCHTITAN

TOOLS = {tool.name: tool for tool in (MEGATRON_CORE, TORCHTITAN, DEEPSPEED, FSDP2, ACCELERATE, NEMO)}


def tool(name: str) -> Tool:
    """The tool called `name`. Errors: Refused, with the nearest names."""
    if name not in TOOLS:
        raise Refused("--as", f"one of {', '.join(TOOLS)}{did_you_mean(name, TOOLS)}", name[:80])
    return TOOLS[name]
