"""Published scaling laws: each one file, with its constants, what N and C mean in it, its range and its errata."""

from __future__ import annotations

from calc.errors import Refused
from calc.laws.abnar import ABNAR
from calc.laws.base import PF_DAY, Constant, Equation, Frontier, Law
from calc.laws.besiroglu import BESIROGLU, BESIROGLU_HUBER, BESIROGLU_LAD
from calc.laws.bjorck import BJORCK
from calc.laws.busbridge import BUSBRIDGE
from calc.laws.clark import CLARK_HASH, CLARK_RL_R, CLARK_S_BASE
from calc.laws.deepseek import DEEPSEEK
from calc.laws.gadre import GADRE, GADRE_REDPAJAMA, GADRE_REFINEDWEB
from calc.laws.hoffmann import HOFFMANN_1, HOFFMANN_2, HOFFMANN_3, HOFFMANN_3_ROUNDED
from calc.laws.kaplan import KAPLAN, KAPLAN_DERIVED
from calc.laws.krajewski import KRAJEWSKI
from calc.laws.kumar import KUMAR
from calc.laws.llama3 import LLAMA_3, LLAMA_3_TEXT
from calc.laws.ludziejewski import LUDZIEJEWSKI
from calc.laws.muennighoff import MUENNIGHOFF
from calc.laws.parametric import Parametric
from calc.laws.pearce_song import PEARCE_SONG
from calc.laws.porian import PORIAN
from calc.laws.sardana import SARDANA, SARDANA_PRINTED
from calc.laws.step_law import STEP_LAW
from calc.laws.tao import TAO
from calc.laws.variables import VARIABLES, Variable

__all__ = [
    "DEFAULT",
    "LAWS",
    "PF_DAY",
    "VARIABLES",
    "Constant",
    "Equation",
    "Frontier",
    "Law",
    "Parametric",
    "Variable",
    "find",
]

LAWS: tuple[Law, ...] = (
    KAPLAN,
    KAPLAN_DERIVED,
    HOFFMANN_1,
    HOFFMANN_2,
    HOFFMANN_3,
    HOFFMANN_3_ROUNDED,
    BESIROGLU,
    BESIROGLU_HUBER,
    BESIROGLU_LAD,
    PORIAN,
    PEARCE_SONG,
    GADRE,
    GADRE_REDPAJAMA,
    GADRE_REFINEDWEB,
    MUENNIGHOFF,
    BUSBRIDGE,
    SARDANA,
    SARDANA_PRINTED,
    DEEPSEEK,
    LLAMA_3,
    LLAMA_3_TEXT,
    STEP_LAW,
    BJORCK,
    CLARK_S_BASE,
    CLARK_RL_R,
    CLARK_HASH,
    LUDZIEJEWSKI,
    KRAJEWSKI,
    ABNAR,
    KUMAR,
    TAO,
)
DEFAULT = "besiroglu"
"""The law that answers where none is named."""
BY_NAME = {law.name: law for law in LAWS}
ALIASES = {"chinchilla": "hoffmann-3", "epoch": "besiroglu", "clark": "clark-s-base", "joint-moe": "ludziejewski"}
"""Another name of a law -> its own."""


def find(name: str) -> Law:
    """The law called `name`. Errors: Refused, with the known names."""
    law = BY_NAME.get(ALIASES.get(name, name))
    if law is None:
        raise Refused("--law", f"one of {', '.join((*BY_NAME, *ALIASES))}", name)
    return law
