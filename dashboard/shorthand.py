"""Sliders for the sizes that people quote, as the TOML that the command line reads."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from calc.symbols import describe

STYLES = {
    "Llama": ('norm = "rmsnorm"', 'activation = "silu"', 'position = "rope"', "gated = true", "bias = false"),
    "GPT-2": ('norm = "layernorm"', 'activation = "gelu"', 'position = "learned"', "gated = false", "bias = true"),
}
"""What a block is made of, by the model that made it known."""
HEADS = (1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 32, 40, 48, 56, 64, 72, 80, 96, 112, 128)
WIDTHS = (32, 48, 64, 80, 96, 112, 128, 160, 192, 256)


def sliders() -> str:
    """Draw the sliders; the shorthand that they stand for, in TOML."""
    style = st.segmented_control(
        "Block", list(STYLES), default="Llama", key="style", required=True, bind="query-params"
    )
    sizes = {
        "d_model": _slider("d_model", (64, 20480), 4096, 64),
        "n_layers": _slider("n_layers", (1, 160), 32),
        "n_heads": _choice("n_heads", HEADS, 32),
    }
    shared = [n for n in range(1, sizes["n_heads"] + 1) if sizes["n_heads"] % n == 0]
    usual = 8 if 8 in shared else sizes["n_heads"]
    if st.session_state.get("n_kv_heads") not in (None, *shared):
        st.session_state["n_kv_heads"] = usual  # the heads that they divided have just been changed
    sizes["n_kv_heads"] = _choice("n_kv_heads", shared, usual) if len(shared) > 1 else 1
    sizes["d_head"] = _choice("d_head", WIDTHS, 128)
    sizes |= _channel()
    sizes["vocab_size"] = _number("vocab_size", 2**20, 128_256)
    sizes["max_seq_len"] = _number("max_seq_len", 2**24, 8192)
    tied = st.toggle("Tied head", key="tied", help="The head is the token table", bind="query-params")
    lines = [f"{name} = {size}" for name, size in sizes.items()]
    return "\n".join([*lines, f"tied = {str(tied).lower()}", *STYLES[style or "Llama"]]) + "\n"


def _channel() -> dict[str, int]:
    """The feed-forward block: dense, or a mixture of experts."""
    if not st.toggle("Mixture of experts", key="moe", bind="query-params"):
        return {"d_ff": _slider("d_ff", (64, 65536), 14336, 64)}
    return {
        "n_experts": _slider("n_experts", (2, 512), 8),
        "top_k": _slider("top_k", (1, 16), 2),
        "d_expert": _slider("d_expert", (64, 32768), 14336, 64),
    }


def _slider(name: str, ends: tuple[int, int], usual: int, step: int = 1) -> int:
    return st.slider(name, *ends, usual, step, key=name, help=describe(name).meaning, bind="query-params")


def _choice(name: str, sizes: Sequence[int], usual: int) -> int:
    return st.select_slider(name, sizes, usual, key=name, help=describe(name).meaning, bind="query-params")


def _number(name: str, most: int, usual: int) -> int:
    return int(st.number_input(name, 1, most, usual, key=name, bind="query-params"))
