"""The alphabet: every size a formula may hold, with its symbol, unit and meaning."""

from __future__ import annotations

from typing import NamedTuple


class Symbol(NamedTuple):
    """One letter of the alphabet; `name` is also the field in a spec and the name `solve --for` takes."""

    name: str
    latex: str
    unit: str
    meaning: str


SYMBOLS = (
    Symbol("d_model", "d", "elements", "width of the residual stream"),
    Symbol("n_layers", "L", "layers", "number of layers"),
    Symbol("n_heads", "h", "heads", "query heads"),
    Symbol("n_kv_heads", "h_{kv}", "heads", "key and value heads"),
    Symbol("d_head", "d_h", "elements", "width of one attention head"),
    Symbol("d_ff", "d_{ff}", "elements", "inner width of the feed-forward block"),
    Symbol("n_experts", "E", "experts", "routed experts in a layer"),
    Symbol("top_k", "k", "experts", "routed experts that one token visits"),
    Symbol("d_expert", "d_e", "elements", "inner width of one routed expert"),
    Symbol("d_shared", "d_s", "elements", "inner width of all shared experts together"),
    Symbol("vocab_size", "V", "tokens", "rows of the token embedding"),
    Symbol("d_embed", "d_{emb}", "elements", "width of the token embedding, where it is not d_model"),
    Symbol("n_positions", "P", "positions", "rows of the learned position embedding"),
    Symbol("window", "W", "tokens", "length of a sliding attention window"),
    Symbol("batch", "B", "sequences", "sequences processed together"),
    Symbol("seq", "S", "tokens", "new tokens in each sequence"),
    Symbol("source_seq", "S_{src}", "tokens", "length of the encoder's input for each sequence"),
    Symbol("context", "C", "tokens", "tokens of each sequence already in the cache"),
)
BY_NAME = {symbol.name: symbol for symbol in SYMBOLS}


def describe(name: str) -> Symbol:
    """The entry of a symbol; a group's own size (`d_head_sliding`) is described from its base (`d_head`).

    Errors: KeyError for a name whose base is not in the alphabet.
    """
    if name in BY_NAME:
        return BY_NAME[name]
    known = _base(name)
    group = name[len(known.name) + 1 :].replace("_", " ")
    stem, _, index = known.latex.partition("_")
    subscript = ",".join(filter(None, (index.strip("{}"), rf"\mathrm{{{group}}}")))
    return Symbol(name, f"{stem}_{{{subscript}}}", known.unit, f"{known.meaning}, {group} layers")


def place(name: str) -> int:
    """Where a symbol stands in the alphabet."""
    return SYMBOLS.index(BY_NAME.get(name) or _base(name))


def _base(name: str) -> Symbol:
    bases = [base for base in BY_NAME if name.startswith(f"{base}_")]
    if not bases:
        raise KeyError(name)
    return BY_NAME[max(bases, key=len)]
