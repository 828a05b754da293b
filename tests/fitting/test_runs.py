"""Reading runs, and designs that leave constants open: every refusal is one line, every guess is a warning."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calc
from calc.errors import Refused
from tests.fitting.surfaces import grid, losses

THETA = np.array([math.log(400), 0.34, math.log(2000), 0.37, math.log(1.8), 0.0])


def columns(params: np.ndarray, tokens: np.ndarray) -> dict[str, np.ndarray]:
    return {"params": params, "tokens": tokens, "loss": losses(THETA, params, tokens)}


def csv(folder: Path, text: str) -> Path:
    path = folder / "runs.csv"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ("N,D,loss", {"params": "N", "tokens": "D", "loss": "loss"}),
        (
            "Model Size,Training Tokens,Val_Loss",
            {"params": "Model Size", "tokens": "Training Tokens", "loss": "Val_Loss"},
        ),
        ("train_loss,loss,tokens,n_params", {"params": "n_params", "tokens": "tokens", "loss": "loss"}),
    ],
)
def test_columns_are_found_by_their_names(tmp_path: Path, header: str, found: dict[str, str]) -> None:
    values = ",".join(["1e8", "2e9", "3.0", "1e7"][: header.count(",") + 1])
    assert calc.read_runs(csv(tmp_path, f"{header}\n{values}\n")).columns == found


def test_an_empty_column_is_passed_over(tmp_path: Path) -> None:
    runs = calc.read_runs(csv(tmp_path, "params_total,params_nonemb,tokens,loss\n,1e8,2e9,3\n,2e8,2e9,2.9\n"))
    assert runs.columns == {"params": "params_nonemb", "tokens": "tokens", "loss": "loss"}
    assert runs.params.tolist() == [1e8, 2e8]


def test_sizes_may_be_written_as_on_the_command_line(tmp_path: Path) -> None:
    path = csv(tmp_path, "N,D,loss,C\n7B,1.4T,2.1,0.5 PF-days\n1e8,2e9,3,1.2e18\n")
    runs = calc.read_runs(path, with_flops=True)
    assert runs.params.tolist() == [7e9, 1e8]
    assert runs.tokens.tolist() == [1.4e12, 2e9]
    assert runs.flops is not None
    assert runs.flops.tolist() == [4.32e19, 1.2e18]
    with pytest.raises(Refused, match=r"row 1, loss: expected a positive number .*, found 2\.1B"):
        calc.read_runs(csv(tmp_path, "N,D,loss\n7B,1.4T,2.1B\n"))


def test_products_of_whole_numbers_do_not_wrap_around() -> None:
    runs = calc.read_runs({"N": np.array([405 * 10**9]), "D": np.array([15_600 * 10**9]), "loss": np.array([1.8])})
    assert runs.six_nd[0] == pytest.approx(3.7908e25)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a CSV file with a header line, found No columns"),
        ("N,D,loss\n", "expected rows, found none"),
        ("N,D\n1e8,1e9\n", r"expected a column of loss \(named loss, val_loss, .*found columns N, D"),
        ("N,D,loss\n1e8,1e9,3\n1e8,1e9,nan\n", "row 2, loss: expected a positive number .*, found nan"),
        ("N,D,loss\n1e8,1e9,0\n", "row 1, loss: expected a positive number .*, found 0"),
        ("N,D,loss\n1e8,1e9,-1.5\n", "row 1, loss: expected a positive number .*, found -1.5"),
        ("N,D,loss\n1e8,1e9,inf\n", "row 1, loss: expected a positive number .*, found inf"),
        ("N,D,loss\nbig,1e9,3\n", "row 1, N: expected a positive number .*, found big"),
        ('N,D,loss\n"1e8,1e9,3\n', "expected a CSV file"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(Refused, match=message) as refusal:
        calc.read_runs(csv(tmp_path, text))
    assert "\n" not in str(refusal.value)


def test_invalid_rows_can_be_left_out(tmp_path: Path) -> None:
    runs = calc.read_runs(csv(tmp_path, "N,D,loss\n1e8,1e9,3\n2e8,1e9,\n3e8,1e9,-1\n"), skip_invalid=True)
    assert len(runs) == 1
    assert runs.notes == ("2 of 3 rows are left out: a value in them is no positive number",)


def test_repeated_rows_count_once() -> None:
    once = columns(*grid())
    twice = {name: np.concatenate([values, values]) for name, values in once.items()}
    fit = calc.fit(twice, refits=0)
    assert fit.rows == 36
    assert "36 rows repeat another and are left out" in fit.warnings


@pytest.mark.parametrize(
    ("conditions", "kept"),
    [
        (["set=a"], [1, 2]),
        (["set!=a"], [3, 4]),
        (["note~bad"], [2, 4]),
        (["note!~bad", "set=b"], [3]),
        (["lr=0.1"], [1, 3]),
    ],
)
def test_where(tmp_path: Path, conditions: list[str], kept: list[int]) -> None:
    rows = ["1,1,1,a,,0.1", "2,1,1,a,a bad run,0.2", "3,1,1,b,ok,0.10", "4,1,1,b,bad,0.2"]
    path = csv(tmp_path, "N,D,loss,set,note,lr\n" + "\n".join(rows))
    assert calc.read_runs(path, where=conditions).params.tolist() == kept
    with pytest.raises(Refused, match="expected rows that meet the conditions, found none"):
        calc.read_runs(path, where=["set=c"])
    with pytest.raises(Refused, match="where: expected a condition"):
        calc.read_runs(path, where=["set"])


def test_rows_that_call_themselves_bad_are_pointed_out(tmp_path: Path) -> None:
    path = csv(tmp_path, "N,D,loss,notes\n1e8,1e9,3,\n2e8,1e9,4,outlier\n")
    assert calc.read_runs(path).notes == (
        '1 rows are marked in notes and are fitted all the same: --where "notes!~outlier" leaves them out',
    )


def test_several_evaluations_in_one_file_are_pointed_out() -> None:
    runs = columns(*grid())
    both = {name: np.concatenate([values, values]) for name, values in runs.items()}
    both["loss"][36:] *= 1.2
    assert any("differ by up to 20% in loss" in note for note in calc.read_runs(both).notes)


def test_fewer_runs_than_constants_are_refused() -> None:
    few = {name: values[[0, 5, 14, 30]] for name, values in columns(*grid()).items()}
    with pytest.raises(Refused, match="runs: expected at least 5 of different sizes"):
        calc.fit(few)
    assert calc.fit(few, "equal-exponents", refits=0).warnings == (
        "4 runs for 4 constants: the fit follows their noise",
    )


def test_one_number_of_tokens_leaves_its_constants_open() -> None:
    fit = calc.fit(columns(np.geomspace(1e7, 1e10, 12), np.full(12, 1e10)), refits=20)
    assert fit.constants["alpha"] == pytest.approx(0.34, rel=1e-4)
    assert [name for name, value in fit.constants.items() if value is None] == ["B", "E", "beta"]
    assert fit.optimum is None
    assert set(fit.intervals) == {"A", "alpha"}
    assert "1 distinct number of tokens, 3 needed: B, beta, E cannot be told" in fit.warnings


@pytest.mark.parametrize("law", ["chinchilla", "free-k", "compute"])
def test_a_ladder_of_one_ratio_is_fitted_as_a_power_of_compute(law: str) -> None:
    """With one exponent for both, which makes it exactly one: the floor and the exponent come back, and no optimum."""
    sizes = np.geomspace(1e7, 1e10, 12)
    runs = columns(sizes, 20 * sizes)
    runs["loss"] = 1.8 + 400 / sizes**0.34 + 2000 / (20 * sizes) ** 0.34
    fit = calc.fit(runs, law, refits=50)
    assert fit.law == "compute"
    k = (400 + 2000 / 20**0.34) * 120**0.17
    assert fit.constants == pytest.approx({"E": 1.8, "gamma": 0.17, "K": k}, rel=1e-4)
    assert fit.optimum is None
    assert set(fit.intervals) == {"E", "gamma", "K"}
    together = [warning for warning in fit.warnings if "parameters and tokens move together" in warning]
    assert len(together) == (law != "compute")
    assert all("20 to 20 tokens a parameter): E + K / C^gamma is fitted instead" in warning for warning in together)
    assert [each.law for each in calc.tournament(runs, refits=0)] == ["compute"]


def test_a_ladder_predicts_along_itself() -> None:
    sizes = np.geomspace(1e7, 1e10, 12)
    fit = calc.fit(columns(sizes, 20 * sizes), refits=0)
    # Along the line itself the fit still predicts.
    assert fit.predict(1e9, 2e10) == pytest.approx(float(losses(THETA, np.array(1e9), np.array(2e10))), rel=1e-4)


def test_a_floor_that_is_not_there_is_said_to_be_gone() -> None:
    params, tokens = grid()
    no_floor = np.array([math.log(40), 0.2, math.log(60), 0.2, -np.inf, 0.0])
    fit = calc.fit({"N": params, "D": tokens, "L": losses(no_floor, params, tokens)}, refits=0)
    assert "E has gone to zero: these runs show no floor" in fit.warnings
    assert fit.constants["E"] is None
    assert fit.constants["alpha"] == pytest.approx(0.2, rel=1e-4)


def test_runs_that_all_end_at_one_loss_tell_no_constant() -> None:
    params, tokens = grid()
    fit = calc.fit({"N": params, "D": tokens, "L": np.full(params.size, 2.5)}, refits=20)
    assert {fit.constants[name] for name in ("A", "B", "E")} == {None}
    assert fit.optimum is None
    assert not {"A", "B", "E"} & set(fit.intervals)


def test_more_parameters_that_raise_the_loss_leave_their_term_open() -> None:
    params, tokens = grid()
    loss = 1.5 + 0.01 * params**0.2 + 2000 / tokens**0.36
    fit = calc.fit({"N": params, "D": tokens, "L": loss}, refits=20)
    assert fit.constants["A"] is fit.constants["alpha"] is fit.optimum is None
    assert "alpha is not above zero: in these runs more parameters do not lower the loss" in fit.warnings
    assert fit.constants["beta"] == pytest.approx(0.36, rel=1e-3)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"objective": "mse"}, "objective"),
        ({"level": 1.0}, "level"),
        ({"compute": -1.0}, "compute"),
        ({"refits": -1}, "refits"),
        ({"refits": 50_001}, "refits"),
        ({"refits": 2**30}, "refits"),
        ({"delta": 0.0}, "delta"),
        ({"delta": 0.5, "objective": "lad"}, "delta"),
        ({"law": "isoflop"}, "law"),
        ({"columns": {"loss": "nowhere"}}, "runs"),
    ],
)
def test_options_are_checked(options: dict, field: str) -> None:
    with pytest.raises(Refused) as refusal:
        calc.fit(columns(*grid()), **options)
    assert refusal.value.field == field


def test_a_hundred_thousand_rows() -> None:
    random = np.random.default_rng(0)
    runs = columns(10 ** random.uniform(7, 10, 10**5), 10 ** random.uniform(8.5, 11.5, 10**5))
    runs["loss"] = runs["loss"] * np.exp(random.normal(0, 0.01, 10**5))
    fit = calc.fit(runs)
    for name, value in {"A": 400, "B": 2000, "E": 1.8, "alpha": 0.34, "beta": 0.37}.items():
        interval = fit.intervals[name]
        assert interval is not None
        assert interval.low * 0.995 < value < interval.high * 1.005


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "params;tokens;loss\n1e8;1e9;3\n",
            "columns with commas between them, found columns params;tokens;loss",
        ),
        (
            "flops,params,loss\n1e18,1e8,3\n",
            r"add one of FLOPs / \(6 \* parameters\), found columns flops, params",
        ),
    ],
    ids=["semicolons", "no tokens"],
)
def test_the_likeliest_reason_is_told(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(Refused, match=said):
        calc.read_runs(csv(tmp_path, text))


def noisy(seed: int = 0) -> dict[str, np.ndarray]:
    """36 runs with half a percent of noise."""
    runs = columns(*grid())
    return runs | {"loss": runs["loss"] * np.exp(np.random.default_rng(seed).normal(0, 0.005, 36))}


def test_diverged_and_mislabelled_runs_are_named() -> None:
    runs = noisy()
    runs["loss"][[3, 20]] *= [1.5, 2.0]
    runs["params"][8] /= 1000
    runs["loss"][30] = np.exp(runs["loss"][30])
    fit = calc.fit(runs | {"run": [f"run-{i}" for i in range(36)]}, refits=0)
    said = next(warning for warning in fit.warnings if warning.startswith("far off the fit"))
    assert "row 4 (run-3) +5" in said
    assert "row 21 (run-20) +10" in said or "row 21 (run-20) +9" in said
    assert "row 9 (run-8)" in said
    assert "1,000 times the parameters?" in said
    assert "row 31 (run-30)" in said
    assert "a perplexity?" in said
    assert said.count("diverged?") == 2
    clean = calc.fit(runs, refits=0, skip_far=True)
    assert clean.rows == 32
    assert any("4 of 36 runs are left out, far off a first fit" in warning for warning in clean.warnings)
    assert clean.constants == pytest.approx({"A": 400, "B": 2000, "E": 1.8, "alpha": 0.34, "beta": 0.37}, rel=0.3)
    assert not any("far off" in warning for warning in calc.fit(noisy(), refits=0).warnings)


RATIOS = np.array([5, 20, 80, 200])


def grid_of_ratios() -> dict[str, np.ndarray]:
    """24 runs, six sizes at four numbers of tokens a parameter, with 0.3 % of noise."""
    params = np.repeat(np.geomspace(1e7, 3e9, 6), 4)
    runs = columns(params, params * np.tile(RATIOS, 6))
    return runs | {"loss": runs["loss"] * np.exp(np.random.default_rng(0).normal(0, 0.003, 24))}


BAD_EDGES = {
    "largest three": ([21, 22, 23], 9.5),
    "largest size": ([20, 21, 22, 23], 9.5),
    "largest run": ([23], 50.0),
    "smallest three": ([0, 1, 2], 9.5),
    "longest of every size": ([7, 11, 15, 19, 23], 7.0),
    "smallest run too good": ([0], 2.0),
}


@pytest.mark.parametrize(("bad", "loss"), BAD_EDGES.values(), ids=BAD_EDGES)
def test_diverged_runs_at_an_edge_are_named_though_they_bend_the_fit(bad: list[int], loss: float) -> None:
    runs = grid_of_ratios()
    runs["loss"][bad] = loss
    said = next(warning for warning in calc.fit(runs, refits=0).warnings if warning.startswith("far off the fit"))
    named = {int(row) - 1 for row in re.findall(r"row (\d+)", said)}
    assert named <= set(bad)
    assert len(named) == min(len(bad), 4)
    clean = calc.fit(runs, refits=0, skip_far=True)
    assert clean.runs.row is not None
    assert set(range(24)) - {int(row) - 1 for row in clean.runs.row} == set(bad)
    assert clean.constants == pytest.approx({"A": 400, "B": 2000, "E": 1.8, "alpha": 0.34, "beta": 0.37}, rel=0.25)


def test_an_equation_of_a_paper_names_such_runs_too() -> None:
    runs = grid_of_ratios()
    runs["loss"][-3:] = 9.5
    said = next(each for each in calc.fit_law(runs, "besiroglu", refits=0).warnings if each.startswith("far off"))
    assert {int(row) for row in re.findall(r"row (\d+)", said)} == {22, 23, 24}


@given(seed=st.integers(0, 10**6), share=st.floats(0.02, 0.12), at=st.sampled_from(["anywhere", "largest", "cheapest"]))
@settings(max_examples=20, deadline=None)
def test_bad_runs_wherever_they_are_and_no_others(seed: int, share: float, at: str) -> None:
    random = np.random.default_rng(seed)
    runs = grid_of_ratios()
    bad = max(1, int(share * 24))
    order = {"anywhere": random.permutation(24), "largest": np.arange(24)[::-1], "cheapest": np.arange(24)}[at]
    runs["loss"][order[:bad]] *= random.uniform(1.3, 3, bad)
    clean = calc.fit(runs, refits=0, skip_far=True)
    rows = np.arange(1, 25) if clean.runs.row is None else clean.runs.row
    assert set(range(24)) - {int(row) - 1 for row in rows} == set(order[:bad].tolist())


def test_noise_and_several_settings_are_nobodys_fault() -> None:
    """Runs that differ by 30 % at the same sizes contradict each other, but none of them is to blame."""
    runs = grid_of_ratios()
    many = {name: np.repeat(values, 3) for name, values in runs.items()}
    many["loss"] = many["loss"] * np.tile([1.0, 1.15, 1.3], 24)
    assert not any("far off" in warning for warning in calc.fit(many, refits=0).warnings)


def test_pooled_data_is_pointed_out_with_how_far_it_lies_apart() -> None:
    runs = noisy()
    dataset = np.array(["a", "b"] * 18)
    runs["loss"][dataset == "b"] *= 1.03
    said = [warning for warning in calc.fit(runs | {"dataset": dataset}, refits=0).warnings if "pooled" in warning]
    assert len(said) == 1
    assert re.match(r"2 values of dataset \(a, b\) are pooled and lie (2|3)\.\d+% apart at equal sizes", said[0])
    alike = calc.fit(noisy() | {"dataset": dataset}, refits=0).warnings
    assert any(warning.startswith("2 values of dataset (a, b) are pooled: --where") for warning in alike)


def test_repeated_runs_are_counted_with_their_spread() -> None:
    one, other = noisy(0), noisy(1)
    both = {name: np.concatenate([one[name], other[name]]) for name in one}
    spread = np.exp(np.abs(np.log(one["loss"] / other["loss"]))) - 1
    notes = calc.read_runs(both).notes
    assert notes == (
        f"72 runs repeat 36 pairs of parameters and tokens: losses differ by {np.median(spread):.2%}, at most "
        f"{spread.max():.2%}, which no fit explains",
    )


def test_the_best_of_each_sweep_of_learning_rates() -> None:
    best = noisy()
    swept = {name: np.repeat(values, 3) for name, values in best.items()}
    swept["loss"] = swept["loss"] * np.tile([1.01, 1.0, 1.02], 36)
    swept["lr"] = np.tile([1e-3, 2e-3, 4e-3], 36)
    fit = calc.fit(swept, refits=0, best=True)
    assert fit.constants == pytest.approx(dict(calc.fit(best, refits=0).constants))
    assert fit.warnings == ("36 of 108 rows are the best of their parameters and tokens; the others are left out",)
    swept["loss"] = swept["loss"] * np.tile([1.0, 1.0, 0.9], 36)
    assert any(
        "in 36 of 36 sweeps the best learning rate is the lowest or highest" in warning
        for warning in calc.read_runs(swept, best=True).notes
    )


def test_units_that_cannot_be_and_swapped_columns_are_pointed_out() -> None:
    runs = columns(*grid())
    perplexities = calc.read_runs(runs | {"loss": np.exp(runs["loss"] + 1)}).notes
    assert any("losses are above 14 nats a token, where guessing ends (perplexities?" in note for note in perplexities)
    one = runs | {"loss": np.where(np.arange(36) == 5, 50.0, runs["loss"])}
    assert "1 of 36 losses are above 14 nats a token, where guessing ends" in calc.read_runs(one).notes
    assert any("row 6 +" in warning for warning in calc.fit(one, refits=0).warnings)
    swapped = calc.read_runs({"params": runs["tokens"], "tokens": runs["params"], "loss": runs["loss"]}).notes
    assert any("are the two columns swapped?" in note for note in swapped)


def test_a_huge_cell_is_not_echoed(tmp_path: Path) -> None:
    for text in (f"N,D,loss\n1e8,1e9,{'x' * 5_000_000}\n", f"N,D,{'y' * 5_000_000}\n1e8,1e9,3\n"):
        with pytest.raises(Refused) as refusal:
            calc.read_runs(csv(tmp_path, text))
        assert len(str(refusal.value)) < 1_000
