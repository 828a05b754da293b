"""The forms that a fit knows. Each is the same loss surface with some of its constants held or tied.

    L(N, D) = E + (A / N^alpha + B / D^beta)^k

N parameters, D tokens, L nats (or whatever unit the losses are in: A, B and E carry it). Inside, a set of constants is
the vector (ln A, alpha, ln B, beta, ln E, ln k): the logarithms keep A, B, E and k positive, as in Hoffmann et al.
(2022), equation 10 and below.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calc import checks

Array = NDArray[np.float64]

LN_A, ALPHA, LN_B, BETA, LN_E, LN_K = range(6)


@dataclass(frozen=True, slots=True)
class Form:
    """A form of loss.

    free: which of the six move; several in one tuple are held equal. fixed: the value of each that does not move.
    publish: sets of constants, shape (..., 6), to what the form's source calls them, each of shape (...).
    names: for each of the six, the published constant that depends on it foremost; empty where none does.
    aliases: published laws of this form. of_compute: whether the loss depends on C = 6 N D alone, which then stands in
    the place of N.
    """

    name: str
    title: str
    equation: str
    source: str
    free: tuple[tuple[int, ...], ...]
    fixed: tuple[float, ...]
    publish: Callable[[Array], Mapping[str, Array]]
    names: tuple[str, ...] = ("A", "alpha", "B", "beta", "E", "k")
    aliases: tuple[str, ...] = ()
    of_compute: bool = False

    def axes(self, params: Array, tokens: Array) -> tuple[Array, Array]:
        """What stands in the places of N and D."""
        return (6.0 * params * tokens, tokens) if self.of_compute else (params, tokens)

    @property
    def bends(self) -> bool:
        """Whether k is anything but 1."""
        return (LN_K,) in self.free

    def loss(self, theta: Array, params: Array, tokens: Array) -> Array:
        """The loss of one set of constants at N and D, in any shape that the two broadcast to."""
        return np.exp(log_loss(theta, *(np.log(np.asarray(each, np.float64)) for each in self.axes(params, tokens))))

    def full(self, moving: Array) -> Array:
        """The six constants, shape (..., 6), from the moving ones, shape (..., len(free))."""
        theta = np.empty((*moving.shape[:-1], 6))
        theta[...] = self.fixed
        for column, places in enumerate(self.free):
            for place in places:
                theta[..., place] = moving[..., column]
        return theta

    def moving(self, theta: Array) -> Array:
        """The moving constants, shape (..., len(free)), of full sets, shape (..., 6)."""
        return theta[..., [places[0] for places in self.free]]


def log_loss(theta: Array, log_n: Array, log_d: Array) -> Array:
    """ln L of one set of constants, in any shape that log_n and log_d broadcast to."""
    ln_a, alpha, ln_b, beta, ln_e, ln_k = theta
    reducible = np.exp(ln_k) * np.logaddexp(ln_a - alpha * log_n, ln_b - beta * log_d)
    return np.logaddexp(reducible, ln_e)


def _surface(theta: Array) -> Mapping[str, Array]:
    ln_a, alpha, ln_b, beta, ln_e, _ = np.moveaxis(theta, -1, 0)
    with np.errstate(over="ignore"):
        return {"A": np.exp(ln_a), "B": np.exp(ln_b), "E": np.exp(ln_e), "alpha": alpha, "beta": beta}


def _bent(theta: Array) -> Mapping[str, Array]:
    return {**_surface(theta), "k": np.exp(theta[..., LN_K])}


def _kaplan(theta: Array) -> Mapping[str, Array]:
    k = np.exp(theta[..., LN_K])
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        return {
            "N_c": np.exp(theta[..., LN_A] / theta[..., ALPHA]),
            "D_c": np.exp(theta[..., LN_B]),
            "alpha_N": theta[..., ALPHA] * k,
            "alpha_D": k,
        }


def _of_compute(theta: Array) -> Mapping[str, Array]:
    return {"K": np.exp(theta[..., LN_A]), "gamma": theta[..., ALPHA], "E": np.exp(theta[..., LN_E])}


_NO_FLOOR = -np.inf
_EACH = ((LN_A,), (ALPHA,), (LN_B,), (BETA,), (LN_E,))

FORMS = (
    Form(
        name="chinchilla",
        title="Chinchilla's sum of two power laws and a floor",
        equation="E + A/N**alpha + B/D**beta",
        source="Hoffmann et al. (2022), Training Compute-Optimal Large Language Models, equation 10 (approach 3)",
        free=_EACH,
        fixed=(0, 0, 0, 0, 0, 0),
        publish=_surface,
        aliases=(
            "hoffmann-3",
            "hoffmann-3-rounded",
            "besiroglu",
            "besiroglu-huber",
            "besiroglu-lad",
            "epoch",
            "sardana",
            "sardana-printed",
        ),
    ),
    Form(
        name="equal-exponents",
        title="Chinchilla's form with alpha = beta: tokens per parameter stay the same at every size",
        equation="E + A/N**alpha + B/D**alpha",
        source="Hoffmann et al. (2022), equation 10 with one exponent; Gadre et al. (2024), Language models scale "
        "reliably with over-training, fits this form in compute and tokens per parameter",
        free=((LN_A,), (ALPHA, BETA), (LN_B,), (LN_E,)),
        fixed=(0, 0, 0, 0, 0, 0),
        publish=_surface,
        aliases=("gadre", "gadre-redpajama", "gadre-refinedweb"),
    ),
    Form(
        name="kaplan",
        title="Kaplan's L(N, D), which has no floor",
        equation="((N_c/N)**(alpha_N/alpha_D) + D_c/D)**alpha_D",
        source="Kaplan et al. (2020), Scaling Laws for Neural Language Models, equation 1.5; N without embeddings",
        free=((LN_A,), (ALPHA,), (LN_B,), (LN_K,)),
        fixed=(0, 0, 0, 1, _NO_FLOOR, 0),
        publish=_kaplan,
        names=("N_c", "alpha_N", "D_c", "", "", "alpha_D"),
    ),
    Form(
        name="free-k",
        title="both at once: k = 1 is Chinchilla's form, E = 0 with beta = 1 Kaplan's",
        equation="E + (A/N**alpha + B/D**beta)**k",
        source="Busbridge et al. (2025), Distillation Scaling Laws, the supervised law, whose gamma is this k "
        "(the equation as known: no page that was opened shows it)",
        aliases=("busbridge",),
        free=(*_EACH, (LN_K,)),
        fixed=(0, 0, 0, 0, 0, 0),
        publish=_bent,
    ),
)

COMPUTE = Form(
    name="compute",
    title="a floor and a power of compute, for runs of one number of tokens a parameter",
    equation="E + K/(6*N*D)**gamma",
    source="Kaplan et al. (2020), equation 1.3, with the floor of Hoffmann et al. (2022), equation 10: where D goes "
    "with N, that sum is a power of C",
    free=((LN_A,), (ALPHA,), (LN_E,)),
    fixed=(0, 0, _NO_FLOOR, 0, 0, 0),
    publish=_of_compute,
    names=("K", "gamma", "", "", "E", ""),
    of_compute=True,
)
"""What is left to fit on a ladder of models, each with the same tokens a parameter: N and D cannot be told apart."""


def find(name: str) -> Form:
    """The form of a name, its own or that of a published law. Errors: Refused for any other."""
    published = {alias: form for form in FORMS for alias in form.aliases}
    if name in published:
        return published[name]
    known = {form.name: form for form in (*FORMS, COMPUTE)}
    checks.word("law", name, tuple(known))
    return known[name]
