"""Scaling laws: where the model and its tokens lie among the optima of every law, and laws fitted to one's own runs."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any

import streamlit as st

from calc.charts.losses import plane_chart
from calc.charts.optima import isoflop_chart
from calc.errors import Refused
from calc.laws import DEFAULT, LAWS
from calc.laws.base import Law
from calc.optimum.judgement import Judgement, differ, differing, judge, judge_all, verdict
from calc.spec import ModelSpec
from calc.units import parse_amount, si
from dashboard import frame, knobs, layout, picker, saved, scaling_fit
from dashboard.cache import cached

OPTIMAL = tuple(law.name for law in LAWS if law.frontier is not None or law.routed is not None)
TOKENS = "15T"
"""Of Llama 3; what the page asks about first."""
MOST = 1e18
COLUMNS = {
    "params": st.column_config.Column("N", help="Parameters, as the law counts them"),
    "past": st.column_config.Column("tokens / law's", help="Over the tokens that the law gives a model of this size"),
    "best_params": st.column_config.Column("best N", help="For the same 6 N D"),
    "best_tokens": st.column_config.Column("best D, tokens", help="For the same 6 N D"),
    "best_loss": st.column_config.Column("best loss", help="Nats a token of the law's own data"),
    "loss": st.column_config.Column("loss", help="Nats a token of the law's own data"),
    "in_range": st.column_config.Column("in range", help="Whether N, D and C lie in what it was fitted on"),
}
SHOWN: dict[str, Callable[..., str]] = dict.fromkeys(("params", "best_params", "best_tokens"), si) | {
    "past": "{:,.3g} ×".format,
    "best_loss": "{:.4f}".format,
    "loss": "{:.4f}".format,
}


def render(picked: picker.Picked | None) -> None:
    """Draw the page."""
    frame.header(
        "Scaling laws", "How far a model and its training tokens are from what each published law would train instead."
    )
    # The answer stands above what it is asked of, which is drawn first.
    answer, controls = st.container(), st.container()
    with controls:
        st.header("What is asked", anchor=False)
        left, right = st.columns(2)
        usual = DEFAULT if picked is None else usual_law(picked.spec)
        knobs.forget_stale("law", [*OPTIMAL], usual)
        law = left.selectbox("Law", OPTIMAL, index=OPTIMAL.index(usual), key="law", bind="query-params")
        text = right.text_input(
            "Training tokens",
            TOKENS,
            max_chars=40,
            key="tokens",
            bind="query-params",
            help="Such as 300B, 15T or 1.4e12",
        )
    if picked is None:
        answer.info("Choose a model in the sidebar to see it among the laws' optima.")
    else:
        with frame.refusals("No verdict"):
            found = judge(picked.spec, _tokens(text or ""), law)
            commands = _commands(picked, law, found)
            saved.about(saved.ANY, commands[0])
            with answer:
                past = f"{found.past:,.3g} × what {law} gives a model of this size"
                st.info(f"{found.tokens_per_param:,.4g} tokens a parameter, {past}.")
                picture, figures = layout.side_by_side()
                with picture:
                    _map(found, law)
                with figures:
                    _figures(found)
                _explained(found, law)
            _place(picked, law, found)
            frame.command(*commands)
    scaling_fit.draw()
    _laws()


@cached
def usual_law(spec: ModelSpec) -> str:
    """The usual law; of a model with experts the first that takes their routing."""
    for law in (DEFAULT, *OPTIMAL):
        try:
            judge(spec, MOST ** (2 / 3), law)
            return law
        except Refused:
            continue
    return DEFAULT


def _tokens(text: str) -> float:
    """The tokens that were typed. Errors: Refused for what is no number of them, or more than there ever will be."""
    tokens = parse_amount(text, "tokens", "tokens")
    if not 1 <= tokens <= MOST:
        raise Refused("tokens", f"from 1 to {MOST:.0e}", text)
    return tokens


@cached
def _plane(law: str, params: float, tokens: float, **routing: float) -> Any:
    return plane_chart(law, params, tokens, **routing)


@cached
def _curves(law: str, compute: float, **routing: Any) -> Any:
    return isoflop_chart(law, compute=compute, **routing)


def _map(found: Judgement, law: str) -> None:
    frame.chart(
        _plane(law, found.params, found.tokens, **found.routing) | {"height": 385},
        "loss-and-optima",
        alt=f"Parameters against tokens: the model and the optima of every law, lines of equal loss by {law}",
    )


def _explained(found: Judgement, law: str) -> None:
    st.caption(
        f"The diamond is the model on its tokens. Solid: lines of equal loss by {law}, where it predicts one. Dashed: "
        f"the compute-optimal models of every law, {law}'s own blue, fainter where extrapolated; grey area: "
        "its 95 % band of one data set's sampling, where one is known. Each law counts N its own way; the point counts "
        "as this one does."
    )
    st.markdown("\n".join(f"- **{about}**: {sentence}" for about, sentence in verdict(found)))
    for warning in found.warnings:
        st.caption(f"⚠ {warning}")
    st.caption(found.convention)


def _place(picked: picker.Picked, law: str, found: Judgement) -> None:
    tokens = found.tokens
    st.header("Models of the same compute", anchor=False)
    st.caption(
        f"At the {found.compute:.3g} FLOP (6·N·D) of this training, and at others around it. Grey, dashed: the lowest "
        "point of each curve. Red: the optimum at this compute."
    )
    frame.chart(
        _curves(law, found.compute, **_routing(found)) | {"height": 440, "title": ""},
        "isoflop",
        alt=f"Loss against parameters at equal compute by {law}",
    )
    st.header("What every law says of it", anchor=False)
    every = judge_all(picked.spec, tokens)
    frame.table(
        [_row(each) for each in every if isinstance(each, Judgement)],
        "laws-of-this-model",
        columns=COLUMNS,
        shown=SHOWN,
    )
    for about, sentence in differing(differ(every)):
        st.markdown(f"**{about.capitalize()}** (without superseded ones): {sentence}.")
    for each in every:
        if not isinstance(each, Judgement):
            st.caption(f"{each[0].name}: {frame.verbatim(each[1])}")


def _commands(picked: picker.Picked, law: str, found: Judgement) -> tuple[str, ...]:
    """The commands that print what the page says of the model."""
    tokens = found.tokens
    model, amount = shlex.quote(picked.reference), shlex.quote(f"{tokens:g}" if tokens > 1e15 else str(tokens))
    return (
        f"python -m calc judge {model} --tokens {amount} --law {law}",
        f"python -m calc judge {model} --tokens {amount} --law all",
        " ".join((f"python -m calc optimal --compute {found.compute!r} --law {law}", *_words(_routing(found)))),
    )


def _routing(found: Judgement) -> dict[str, float]:
    """The routing to ask a law of experts about."""
    return dict(found.routing)


def _words(routing: dict[str, float]) -> list[str]:
    return [f"--{name} {value!r}" for name, value in routing.items()]


def _figures(found: Judgement) -> None:
    with layout.cards():
        per_param = f"{found.tokens_per_param:,.4g}"
        frame.metric("Tokens a parameter", per_param, note=f"{found.past:,.3g} × the law's")
        frame.metric("Compute", si(found.compute, "FLOP"), f"{found.compute:,.0f} FLOP", "6·N·D")
        loss = "–" if found.loss is None else f"{found.loss:.4f}"
        gap = "none in this law" if found.loss_gap is None else f"{found.loss_gap:+.4f} to best"
        frame.metric("Loss, nats a token", loss, note=gap)
        best = si(found.best_params)
        frame.metric("Best size for it", best, f"{found.best_params:,.0f}", f"on {si(found.best_tokens)} tokens")


def _row(found: Judgement) -> dict[str, Any]:
    names = ("law", "params", "past", "best_params", "best_tokens", "best_loss", "loss")
    return {name: getattr(found, name) for name in names} | {"in_range": "yes" if found.in_range else "no"}


def _laws() -> None:
    st.header("All laws", anchor=False)
    st.caption("Equations and constants of one: `python -m calc laws NAME`.")
    frame.table([_law(law) for law in LAWS], "laws", height=400)
    frame.command("python -m calc laws", part="laws")


def _law(law: Law) -> dict[str, str]:
    gives = dict.fromkeys(equation.gives.replace("_", " ") for equation in law.equations)
    return {
        "law": law.name,
        "title": law.title,
        "gives": ", ".join(gives),
        "N counts": law.counts,
        "variant of": law.variant_of or "",
        "uncertainty": law.uncertainty,
        "confirmed": law.confirmed,
        "source": law.source,
    }
