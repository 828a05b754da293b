"""One description of a run: what runs, in which formats, how it is trained, spread, executed and served.

A Run is its nodes in one: a function that needs no more than ranks takes a Parallelism, and a Run is one.
"""

from calc.spec.run.counting import Counting
from calc.spec.run.description import (
    LOAD_SIZES,
    NODES,
    PLAN_SIZES,
    Run,
    common_context,
    common_length,
    exact_run,
)
from calc.spec.run.execution import (
    EXECUTIONS,
    GRAPHS,
    KERNELS,
    LATENT_READINGS,
    WINDOW_READINGS,
    Execution,
    ExecutionName,
    Graphs,
    Kernels,
    WindowReading,
)
from calc.spec.run.numerics import Numerics
from calc.spec.run.parallelism import Parallelism
from calc.spec.run.serving import Serving
from calc.spec.run.training import CHECKPOINTING, MODULES, NOT_DELAYED, OFFLOADS, REGIONS, Checkpointing, Training
from calc.spec.run.workload import COUNTED_PHASES, FLOPS_PHASES, MODES, PHASES, Mode, Phase, Workload

__all__ = [
    "CHECKPOINTING",
    "COUNTED_PHASES",
    "EXECUTIONS",
    "FLOPS_PHASES",
    "GRAPHS",
    "KERNELS",
    "LATENT_READINGS",
    "LOAD_SIZES",
    "MODES",
    "MODULES",
    "NODES",
    "NOT_DELAYED",
    "OFFLOADS",
    "PHASES",
    "PLAN_SIZES",
    "REGIONS",
    "WINDOW_READINGS",
    "Checkpointing",
    "Counting",
    "Execution",
    "ExecutionName",
    "Graphs",
    "Kernels",
    "Mode",
    "Numerics",
    "Parallelism",
    "Phase",
    "Run",
    "Serving",
    "Training",
    "WindowReading",
    "Workload",
    "common_context",
    "common_length",
    "exact_run",
]
