"""Modules that predict further tokens: counted against `calc`, held to transformers' class, and trained."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from transformers.modeling_layers import MtpModel  # noqa: E402

from calc.architectures import from_config  # noqa: E402
from calc.errors import Refused  # noqa: E402
from calc.quantities.flops import forward, training  # noqa: E402
from calc.quantities.parameters import parameter_shapes  # noqa: E402
from calc.spec import Lora, ModelSpec, Moe  # noqa: E402
from calc.spec.load import Load  # noqa: E402
from harness.counter import count  # noqa: E402
from harness.oracles import MODES  # noqa: E402
from reference_models import Model, build, objectives  # noqa: E402
from reference_models.adapters import adapt  # noqa: E402
from tests.architectures.cases_latent import EXPERTS, GQA, INDEXED, V3  # noqa: E402
from tests.architectures.renaming import rename  # noqa: E402
from tests.reference_models.test_latent import pair  # noqa: E402

BATCH, SEQ = 2, 9
TWO = {"num_nextn_predict_layers": 2}
CASES: list[tuple[str, dict[str, Any]]] = [
    ("deepseek_v3", V3 | TWO),
    ("glm4_moe", GQA | EXPERTS | TWO | {"first_k_dense_replace": 3, "use_qk_norm": True}),
    ("glm_moe_dsa", V3 | INDEXED | TWO | {"index_topk_pattern": "FSFS", "index_n_heads": 24}),
]
NAMES = {"enorm": "embed_norm", "hnorm": "hidden_norm", "eh_proj": "proj", "post_norm": "final_norm"}
each_case = pytest.mark.parametrize(("model_type", "config"), CASES)


def spec_of(model_type: str, config: dict[str, Any]) -> ModelSpec:
    return from_config({"model_type": model_type, **config})


def copy_modules(theirs: Any, ours: Model, model_type: str) -> None:
    """Give the modules of `ours` the weights of `theirs`; every one must be met."""
    mine = dict(ours.mtp.named_parameters())
    for name, tensor in theirs.layers.named_parameters():
        number, rest = name.split(".", 1)
        own, _, weight = rest.partition(".")
        paths = [f"{number}.{NAMES[own]}.{weight}"] if own in NAMES else rename(f"layers.{number}.{weight}", model_type)
        paths = [path.removeprefix("layers.") for path in paths]
        for path, part in zip(paths, tensor.chunk(len(paths), dim=1) if len(paths) > 1 else [tensor], strict=True):
            for expert, each in enumerate(part) if "*" in path else [(0, part)]:
                mine.pop(path.replace("*", str(expert))).data.copy_(each)
    assert not mine
    given = [buffer for name, buffer in theirs.layers.named_buffers() if name.endswith("e_score_correction_bias")]
    taken = [buffer for name, buffer in ours.mtp.named_buffers() if name.endswith("correction")]
    for one, other in zip(given, taken, strict=True):
        other.data.copy_(one.normal_())


@pytest.mark.slow
@each_case
@pytest.mark.parametrize("tied", [False, True])
def test_counts(model_type: str, config: dict[str, Any], tied: bool) -> None:
    spec = spec_of(model_type, config | {"tie_word_embeddings": tied})
    model = build(spec, dtype=torch.bfloat16, mtp=True)
    assert {name: tuple(p.shape) for name, p in model.named_parameters()} == parameter_shapes(spec, mtp=True)
    load, tokens = Load(batch=BATCH, seq=SEQ, mtp=True), torch.zeros(BATCH, SEQ, dtype=torch.long)
    assert count(lambda: model(tokens)) == forward(spec, load).total
    for mode in MODES:

        def step(mode: Any = mode) -> None:
            out = model(tokens, checkpointing=mode)
            torch.stack([each.sum() for each in out.results]).sum().backward()

        assert count(step) == training(spec, load, mode).total


def test_experts_of_the_token_itself_are_refused() -> None:
    """A module reads a later token than the one at its place, and would look up the experts of the latter."""
    spec = spec_of(*CASES[0])
    assert spec.mtp is not None
    assert isinstance(spec.mtp.channel, Moe)
    hashed = spec.mtp.channel.model_copy(update={"by_token": True, "groups": None, "correction": False})
    spec = spec.model_copy(update={"mtp": spec.mtp.model_copy(update={"channel": hashed})})
    build(spec, "meta")
    with pytest.raises(NotImplementedError, match="by_token: no module looks up experts"):
        build(spec, "meta", mtp=True)


def test_no_adapters_beside_them() -> None:
    """As in `calc`, which counts none."""
    spec = spec_of(*CASES[0])
    with pytest.raises(NotImplementedError, match="modules that predict further tokens"):
        adapt(build(spec, "meta", mtp=True), Lora(rank=2))
    with pytest.raises(Refused):
        parameter_shapes(spec.model_copy(update={"adapter": Lora(rank=2)}), mtp=True)


def test_left_out_unless_asked_for() -> None:
    spec = spec_of(*CASES[0])
    model = build(spec, "meta")
    assert len(model.mtp) == 0
    assert not model(torch.zeros(1, 4, dtype=torch.long, device="meta")).further
    with pytest.raises(ValueError, match="mtp: expected a spec with modules"):
        build(spec.model_copy(update={"mtp": None}), "meta", mtp=True)


@pytest.mark.parametrize(("model_type", "config"), [case for case in CASES if case[0] != "glm_moe_dsa"])
@torch.no_grad()
def test_same_as_transformers(model_type: str, config: dict[str, Any]) -> None:
    """transformers has no such modules for GLM-5."""
    theirs, plain = pair(model_type, config)
    modules = MtpModel(theirs, 2).eval()
    for parameter in modules.layers.parameters():
        # Their class leaves the weights of routers and experts as it finds them in memory.
        parameter.data.normal_(mean=float(parameter.dim() == 1), std=0.1)
    ours = build(plain.whole, mtp=True)
    ours.load_state_dict(plain.state_dict(), strict=False)
    copy_modules(modules, ours, model_type)
    tokens = torch.randint(97, (BATCH, SEQ))
    last = theirs.model(tokens).last_hidden_state
    for k, found in enumerate(ours(tokens).further):
        # Theirs reads the tokens ahead as they are handed over; ours rolls them. The rest of the sequence is as long.
        position = torch.arange(SEQ)[None]
        last = modules.forward_layer(k, last, position, None, input_ids=tokens.roll(-k - 1, 1))
        torch.testing.assert_close(found, theirs.lm_head(last)[:, : SEQ - k - 1], rtol=1e-4, atol=1e-4)


def test_a_training_step_reaches_every_module() -> None:
    """Their own loss alone gives gradients to them, to the main stack and to the table and head that they share."""
    torch.manual_seed(0)
    model = build(spec_of(*CASES[0]), dtype=torch.float64, mtp=True)
    tokens = torch.randint(97, (BATCH, SEQ))

    def loss() -> Any:
        return objectives.next_token(model, tokens, further=1.0) - objectives.next_token(model, tokens)

    before = loss()
    before.backward()
    # An expert that no token went to has no gradient.
    grads = {name: p.grad for name, p in model.named_parameters() if ".expert_" not in name}
    unmet = {name for name, grad in grads.items() if grad is None or not grad.abs().sum() > 0}
    assert not {name for name in unmet if ".experts." not in name}
    torch.optim.SGD(model.parameters(), lr=0.05).step()
    assert loss() < before


@torch.no_grad()
def test_their_loss_by_hand() -> None:
    """DeepSeek-V3's equations 24 and 25; padding is neither read nor predicted."""
    torch.manual_seed(0)
    model = build(spec_of(*CASES[0]), dtype=torch.float64, mtp=True)
    tokens = torch.randint(97, (BATCH, SEQ))
    keep = torch.ones_like(tokens, dtype=torch.bool)
    keep[1, 6:] = False
    for real in (None, keep, keep.flip(1)):
        logs = [logits.log_softmax(-1) for logits in model(tokens, keep=real).further]
        where = torch.ones_like(keep) if real is None else real
        means = []
        for k in (0, 1):
            places = [(b, i) for b in range(BATCH) for i in range(SEQ - k - 2) if where[b, i : i + k + 3].all()]
            means.append(-sum(logs[k][b, i, tokens[b, i + k + 2]] for b, i in places) / len(places))
        plain = objectives.next_token(model, tokens, keep=real)
        found = objectives.next_token(model, tokens, keep=real, further=0.3)
        torch.testing.assert_close(found, plain + 0.3 * (means[0] + means[1]) / 2)
    with pytest.raises(ValueError, match="further: expected a model built with modules"):
        objectives.next_token(build(model.whole), tokens, further=0.3)


@torch.no_grad()
def test_what_comes_later_changes_nothing_before() -> None:
    """Module k reads k + 1 tokens ahead and no further, though its last places run on tokens from the start."""
    torch.manual_seed(0)
    model = build(spec_of(*CASES[1]), dtype=torch.float64, mtp=True)
    tokens = torch.randint(97, (1, SEQ))
    changed = tokens.clone()
    changed[0, 6] = (changed[0, 6] + 1) % 97
    for k, (one, other) in enumerate(zip(model(tokens).further, model(changed).further, strict=True)):
        torch.testing.assert_close(one[:, : 6 - k - 1], other[:, : 6 - k - 1])
        assert not torch.allclose(one[:, 6 - k - 1], other[:, 6 - k - 1])
