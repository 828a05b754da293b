"""A PyTorch module of one's own, captured: every quantity follows, for the lengths of its example inputs or for any."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from torch import Tensor, nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402, N812
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

import calc  # noqa: E402
from calc.errors import Refused  # noqa: E402
from calc.quantities.saved_tensors import saved_tensors as what_is_saved  # noqa: E402
from calc.spec.load import Load  # noqa: E402
from calc.spec.run import Run  # noqa: E402
from calc.trace.settings import Settings  # noqa: E402
from calc.tracing.events import Event  # noqa: E402
from reference_models.saved import saved_tensors  # noqa: E402

WIDTH, BATCH, SEQ = 32, 2, 12
FP32 = Settings("sdpa", "fp32", device="cpu")


class Block(nn.Module):
    """A block that no family has: a norm, a gate and a squared ReLU, some of it frozen."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 3 * WIDTH)
        self.gate = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.down = nn.Linear(3 * WIDTH, WIDTH)
        self.gate.weight.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        return x + self.down(F.relu(self.up(y)).square() * torch.sigmoid(self.gate(y)))


class Own(nn.Module):
    """Three blocks, a first convolution, and a token table that is its head too."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(50, WIDTH)
        self.mix = nn.Conv1d(WIDTH, WIDTH, 3, padding=1)
        self.blocks = nn.ModuleList([Block() for _ in range(3)])
        self.unread = nn.Parameter(torch.zeros(7))

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.table(tokens)
        x = x + self.mix(x.transpose(1, 2)).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        return x @ self.table.weight.T


def tokens(batch: int = BATCH, seq: int = SEQ) -> tuple[Tensor, ...]:
    return (torch.zeros(batch, seq, dtype=torch.long),)


def test_every_quantity_of_a_module_follows() -> None:
    module = Own()
    model = calc.capture(module, tokens, name="own")
    assert calc.estimate(model, "params").value == sum(p.numel() for p in module.parameters())
    trained = sum(p.numel() for p in module.parameters() if p.requires_grad)
    assert calc.estimate(model, "params.trainable").value == trained
    assert calc.parameter_shapes(model) == {path: tuple(p.shape) for path, p in module.named_parameters()}
    for batch, seq in ((2, 12), (1, 5)):
        run = Run(batch=batch, seq=seq)
        with FlopCounterMode(display=False) as forward:
            loss = module(*tokens(batch, seq)).sum()
        with FlopCounterMode(display=False) as backward:
            loss.backward()
        assert calc.estimate(model, "flops.forward", run).value == forward.get_total_flops()
        assert calc.estimate(model, "flops.training", run).value == (
            forward.get_total_flops() + backward.get_total_flops()
        )
    assert calc.estimate(model, "traffic.training", Run(batch=2, seq=12)).value > 0
    assert calc.estimate(model, "memory.peak", Run(batch=2, seq=12)).value > 16 * trained
    assert calc.predict_time(model, "h100-sxm", phase="training", batch=2, seq=12).seconds > 0


def test_autograd_keeps_of_a_module_what_is_counted() -> None:
    module = Own()
    found = what_is_saved(calc.capture(module, tokens), Load(batch=BATCH, seq=SEQ), FP32).everything()
    real = saved_tensors(module, lambda: module(*tokens())).total
    assert sum(times * each.tensor.bytes for times, each in found) == real


def test_nothing_is_left_of_a_module_that_nobody_holds() -> None:
    """Neither of what was captured nor of what was measured: a web page does both for every visitor."""

    def used() -> list[weakref.ref[Any]]:
        module = Own()
        what_is_saved(calc.capture(module, tokens), Load(batch=BATCH, seq=SEQ), FP32).everything()
        saved_tensors(module, lambda: module(*tokens()))
        return [weakref.ref(p) for p in module.parameters()]

    def events() -> int:
        gc.collect()
        return sum(type(each) is Event for each in gc.get_objects())

    before = events()
    weights = used()
    assert events() == before
    assert all(each() is None for each in weights)


def test_layers_that_are_alike_are_one_part_and_repeat() -> None:
    model = calc.capture(Own(), tokens)
    assert [(group.name, group.count) for group in model.layers] == [("blocks", 3)]
    whole = calc.estimate(model, "flops.training", Run(seq=SEQ, checkpointing="full")).value
    plain = calc.estimate(model, "flops.training", Run(seq=SEQ)).value
    inside = 3 * 2 * SEQ * 3 * (3 * WIDTH * WIDTH)
    assert whole - plain == inside


def test_the_module_is_left_as_it_is() -> None:
    module = Own()
    before = {path: p.detach().clone() for path, p in module.named_parameters()}
    calc.estimate(calc.capture(module, tokens), "flops.forward", Run(seq=4))
    assert all(torch.equal(before[path], p) for path, p in module.named_parameters())
    assert module(*tokens()).shape == (BATCH, SEQ, 50)


def test_example_inputs_answer_for_their_own_lengths_alone() -> None:
    model = calc.capture(Own(), tokens())
    assert calc.estimate(model, "flops.forward", Run(batch=BATCH, seq=SEQ)).value > 0
    with pytest.raises(Refused, match="--batch 2 --seq 12, of which the example inputs are, found 2 x 13"):
        calc.estimate(model, "flops.forward", Run(batch=BATCH, seq=SEQ + 1))


def test_explain_says_that_there_is_no_formula() -> None:
    made = calc.explain(calc.capture(Own(), tokens), "flops.forward", Run(seq=SEQ))
    assert made.estimate.source.endswith("traced: no formula per component, exact for these lengths")
    assert made.formula == made.estimate.value
    assert made.values == {}


class Decides(nn.Module):
    """Looks at what a tensor holds."""

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.line(x) if self.line(x).sum() > 0 else x


@pytest.mark.parametrize(
    ("module", "inputs", "refusal"),
    [
        (3, (), "module: expected a torch.nn.Module, found int"),
        (nn.Linear(4, 4), (), "example_inputs: expected a tensor"),
        (nn.Linear(4, 4), (torch.zeros(2, 3, 5),), "--traced: expected a module that can be run without numbers"),
        (Decides(), (torch.zeros(2, 3, 4),), "--traced: expected a module that can be run without numbers"),
        (Decides(), lambda batch, seq: 7, "example_inputs: expected a tuple of tensors"),
    ],
)
def test_what_cannot_be_traced_is_refused_in_one_line(module: Any, inputs: Any, refusal: str) -> None:
    with pytest.raises(Refused) as caught:
        calc.capture(module, inputs)
    assert str(caught.value).startswith(refusal)
    assert "\n" not in str(caught.value)


def test_what_is_not_known_of_a_traced_model_is_refused() -> None:
    model = calc.capture(Own(), tokens)
    asked = [
        ("kv_cache", Run(seq=4), "phase"),
        ("flops.decode", Run(context=4), "phase"),
        ("flops.training", Run(seq=4, checkpointing="selective-op"), "checkpointing"),
        ("memory.peak", Run(seq=4, checkpointing="selective"), "checkpointing"),
        ("memory.peak", Run(seq=4, tp=2), "tp"),
        ("memory.peak", Run(seq=4, dropout=0.1), "dropout"),
        ("memory.peak", Run(seq=4, execution="compiled"), "execution"),
        ("memory.peak", Run(seq=4, mode="inference"), "mode"),
    ]
    for quantity, run, field in asked:
        with pytest.raises(Refused) as caught:
            calc.estimate(model, quantity, run)
        assert caught.value.field == field, quantity


def test_a_file_is_run_only_where_the_user_says_so(tmp_path: Path) -> None:
    from calc.tracing.loading import load_traced

    file, mark = tmp_path / "own.py", tmp_path / "ran"
    file.write_text(
        f"open({str(mark)!r}, 'w').close()\n"
        "import torch\n"
        "def build():\n"
        "    return torch.nn.Linear(8, 4), (torch.zeros(2, 3, 8),)\n"
        "def wrong():\n"
        "    return 3\n"
    )
    with pytest.raises(Refused, match="--run-code, which says that this file may be run"):
        load_traced(f"{file}:build")
    assert not mark.exists()
    model = load_traced(f"{file}:build", run_code=True)
    assert mark.exists()
    assert calc.estimate(model, "flops.forward", Run(batch=2, seq=3)).value == 2 * 2 * 3 * 8 * 4
    for function, expected in (("wrong", r"\(module, example inputs\)"), ("none", "a function")):
        with pytest.raises(Refused, match=expected):
            load_traced(f"{file}:{function}", run_code=True)
    with pytest.raises(Refused, match="a Python file"):
        load_traced(f"{tmp_path}/absent.py:build", run_code=True)


class Mixed(nn.Module):
    """Token vectors that something else than dense layers mixes."""

    def __init__(self, mix: Any) -> None:
        super().__init__()
        self.table = nn.Embedding(50, WIDTH)
        self.mix = mix

    def forward(self, tokens: Tensor) -> Any:
        return self.mix(self.table(tokens))


class Distances(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.cdist(x, x)


class Pairs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.product = nn.Bilinear(WIDTH, WIDTH, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.product(x, x)


@pytest.mark.parametrize("mix", [Distances(), Pairs()], ids=lambda mix: type(mix).__name__)
def test_products_that_nobody_counts_are_refused_and_not_nothing(mix: nn.Module) -> None:
    with pytest.raises(Refused, match=r"--traced: expected operations whose products are counted, found aten\."):
        calc.capture(Mixed(mix), tokens())


@pytest.mark.parametrize(("mix", "gates"), [(nn.RNN(WIDTH, WIDTH), 1), (nn.GRU(WIDTH, WIDTH), 3)], ids=["RNN", "GRU"])
def test_networks_that_step_through_products_are_counted(mix: nn.Module, gates: int) -> None:
    found = calc.estimate(calc.capture(Mixed(mix), tokens()), "flops.forward", batch=BATCH, seq=SEQ).value
    assert found == 2 * BATCH * SEQ * gates * 2 * WIDTH**2


def test_a_network_that_one_operation_steps_through_is_refused_and_not_nothing() -> None:
    """Whether PyTorch has such an operation for an LSTM depends on the processor; without it, its products are seen."""
    try:
        model = calc.capture(Mixed(nn.LSTM(WIDTH, WIDTH)), tokens())
    except Refused as refused:
        assert "whose products are counted, found aten.mkldnn_rnn_layer" in str(refused)
    else:
        assert calc.estimate(model, "flops.forward", batch=BATCH, seq=SEQ).value == 2 * BATCH * SEQ * 4 * 2 * WIDTH**2


def test_layers_of_pytorch_itself_are_counted_whole() -> None:
    """Four square projections, two of the MLP, and a score and a value for each pair."""
    layer = nn.TransformerEncoderLayer(WIDTH, 4, dim_feedforward=96, batch_first=True)
    for module in (nn.TransformerEncoder(layer, 2), nn.TransformerEncoder(layer, 2).eval()):
        found = calc.estimate(calc.capture(Mixed(module), tokens()), "flops.forward", batch=BATCH, seq=SEQ).value
        assert found == 2 * (2 * BATCH * SEQ * (4 * WIDTH**2 + 2 * WIDTH * 96) + 4 * BATCH * SEQ**2 * WIDTH)


def test_an_operation_of_somebody_elses_is_refused() -> None:
    @torch.library.custom_op("envelope_test::mixed", mutates_args=())
    def mixed(x: Tensor) -> Tensor:
        return x @ x.transpose(-1, -2)

    mixed.register_fake(lambda x: x.new_empty(*x.shape[:-1], x.shape[-2]))

    class Custom(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return mixed(x)

    with pytest.raises(Refused, match=r"whose products are counted, found envelope_test\.mixed"):
        calc.capture(Mixed(Custom()), tokens())
