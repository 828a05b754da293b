"""Damped Newton for robust fits of ln L, many at once: every array has the fits along its first axis.

The objective is the sum over runs of w * rho(ln L(N, D) - ln loss), rho being Huber's function: r^2 / 2 up to |r| =
delta, delta * (|r| - delta / 2) beyond. Its second derivative is Gauss-Newton's with the runs inside delta alone, which
may be too few to determine a step; the damping therefore adds every run with the weight that it has in iteratively
reweighted least squares, a quadratic that lies above rho, and the step is taken only where the objective falls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from calc.fitting.forms import ALPHA, BETA, LN_A, LN_B, LN_E, LN_K, Array, Form

_MOST_STEPS = 200
_ROUNDING = 1e-27
"""A step that would gain less than this for each run (the square of 3e-14) is lost in rounding."""


class Data(NamedTuple):
    """Runs as the solver reads them, each of shape (runs,): ln N and ln D less their means, and ln loss."""

    log_n: Array
    log_d: Array
    log_loss: Array
    mean_log_n: float
    mean_log_d: float

    @classmethod
    def of(cls, params: Array, tokens: Array, loss: Array) -> Data:
        log_n, log_d = np.log(params), np.log(tokens)
        centre_n, centre_d = float(log_n.mean()), float(log_d.mean())
        return cls(log_n - centre_n, log_d - centre_d, np.log(loss), centre_n, centre_d)

    def plain(self, theta: Array) -> Array:
        """Constants of the uncentred form, shape (..., 6), from those of the centred one."""
        moved = theta.copy()
        moved[..., LN_A] += theta[..., ALPHA] * self.mean_log_n
        moved[..., LN_B] += theta[..., BETA] * self.mean_log_d
        return moved

    def centred(self, theta: Array) -> Array:
        """The inverse of `plain`."""
        moved = theta.copy()
        moved[..., LN_A] -= theta[..., ALPHA] * self.mean_log_n
        moved[..., LN_B] -= theta[..., BETA] * self.mean_log_d
        return moved


Evaluate = Callable[[Array], tuple[Array, Array]]
"""Sets of moving constants, shape (fits, constants) -> what `residuals` gives for them."""


class Solved(NamedTuple):
    """moving: shape (fits, constants), centred. objective: shape (fits,)."""

    moving: Array
    objective: Array


def residuals(form: Form, data: Data, moving: Array) -> tuple[Array, Array]:
    """ln L - ln loss, shape (fits, runs), and its derivatives by the moving constants, (fits, constants, runs)."""
    theta = form.full(moving)
    ln_a, alpha, ln_b, beta, ln_e, ln_k = theta.T[:, :, None]
    of_n = np.exp(ln_a - alpha * data.log_n)
    of_d = np.exp(ln_b - beta * data.log_d)
    floor = np.exp(ln_e)
    total = of_n + of_d
    slopes: dict[int, Array] = {}
    if form.bends:
        k, inner = np.exp(ln_k), total
        log_inner = np.log(inner)
        reducible = np.exp(k * log_inner)
        total = reducible + floor
        share = k * reducible / total
        slopes[LN_K] = share * log_inner
        of_n *= share / inner
        of_d *= share / inner
    else:
        total += floor
        of_n /= total
        of_d /= total
    slopes |= {LN_A: of_n, ALPHA: -of_n * data.log_n, LN_B: of_d, BETA: -of_d * data.log_d, LN_E: floor / total}
    jacobian = np.empty((len(moving), len(form.free), data.log_n.size))
    for column, (first, *others) in enumerate(form.free):
        jacobian[:, column] = slopes[first]
        for other in others:
            jacobian[:, column] += slopes[other]
    return np.log(total) - data.log_loss, jacobian


def objective(error: Array, weights: Array, delta: float) -> Array:
    """The sum over runs, shape (fits,), of weighted Huber losses; squares / 2 where delta is infinite."""
    size = np.abs(error)
    inside = np.minimum(size, delta)
    return (weights * inside * (size - 0.5 * inside)).sum(axis=1)


def solve(evaluate: Evaluate, start: Array, weights: Array, delta: float, gain: float = 1e-14) -> Solved:
    """Local minima of the objective from `start`, shape (fits, constants).

    weights: shape (fits, runs), or (1, runs) for all alike. gain: a fit is done once a step would lower its objective
    by less than this part.
    """
    found = Solved(start.copy(), np.empty(len(start)))
    with np.errstate(all="ignore"):  # a wild trial step overflows; its objective is then no number and is not taken
        moving, places = start.copy(), np.arange(len(start))
        error, jacobian = evaluate(moving)
        value = objective(error, weights, delta)
        damping = np.ones(len(moving))
        least = np.broadcast_to(_ROUNDING * weights.sum(axis=1) * min(1.0, delta), value.shape)
        for _ in range(_MOST_STEPS):
            step, promise = _step(error, jacobian, weights, delta, damping)
            trial = moving + step
            new_error, new_jacobian = evaluate(trial)
            new_value = objective(new_error, weights, delta)
            taken = new_value <= value
            if taken.all():
                moving, value, error, jacobian = trial, new_value, new_error, new_jacobian
            else:
                for old, new in ((moving, trial), (value, new_value), (error, new_error), (jacobian, new_jacobian)):
                    np.copyto(old.T, new.T, where=taken)
            damping = np.where(taken, 0.1 * damping, np.maximum(10 * damping, 1e-3))
            left = (promise > gain * value + least) & (damping < 1e12)
            if not left.all():
                # Those that are done make room: what is left lies together, and is not copied from step to step.
                found.moving[places[~left]], found.objective[places[~left]] = moving[~left], value[~left]
                places, moving, value, least = places[left], moving[left], value[left], least[left]
                error, jacobian, damping = error[left], jacobian[left], damping[left]
                weights = weights if len(weights) == 1 else weights[left]
            if not places.size:
                break
        found.moving[places], found.objective[places] = moving, value
    return found


def _step(error: Array, jacobian: Array, weights: Array, delta: float, damping: Array) -> tuple[Array, Array]:
    """The step of each fit, (fits, constants), and the fall that its slope promises, (fits,)."""
    size = np.abs(error)
    pull = weights * np.minimum(np.maximum(error, -delta), delta)
    inside = weights * (size <= delta)
    above = weights * np.minimum(1.0, delta / np.maximum(size, 1e-300))
    curvature = inside + damping[:, None] * above
    slope = np.matmul(jacobian, pull[:, :, None])[:, :, 0]
    hessian = np.matmul(jacobian * curvature[:, None, :], jacobian.transpose(0, 2, 1))
    diagonal = hessian.reshape(len(hessian), -1)[:, :: hessian.shape[1] + 1]
    # A constant that no run depends on any more (a floor gone to zero) would make the matrix singular.
    diagonal += (1e-3 * damping[:, None] + 1e-12) * diagonal + 1e-30 * diagonal.max(axis=1, keepdims=True) + 1e-300
    finite = np.isfinite(hessian)
    if not finite.all():
        hessian[~finite.all(axis=(1, 2))] = np.eye(hessian.shape[1])
    step = -np.linalg.solve(hessian, slope[:, :, None])[:, :, 0]
    return step, -(slope * step).sum(axis=1)
