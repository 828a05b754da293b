"""What modules that are computed again by themselves keep, against PyTorch: kept results by `torch.utils.checkpoint`,
freed ones as Megatron-Core's `CheckpointWithoutOutput` frees them, gradients and all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import MethodType
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.utils.checkpoint import checkpoint  # noqa: E402

from calc.architectures import from_config  # noqa: E402
from calc.architectures.models import load_model  # noqa: E402
from calc.errors import Refused  # noqa: E402
from calc.quantities.saved_tensors import saved_tensors  # noqa: E402
from calc.spec import ModelSpec  # noqa: E402
from calc.spec.load import Load  # noqa: E402
from calc.trace.settings import Settings  # noqa: E402
from reference_models import build  # noqa: E402
from reference_models.blocks.attend import attend, split  # noqa: E402
from reference_models.blocks.latent import LatentAttention  # noqa: E402
from reference_models.blocks.mlp import FeedForward  # noqa: E402
from reference_models.blocks.moe import MixtureOfExperts  # noqa: E402
from reference_models.blocks.positions import angles, turn  # noqa: E402
from tests.architectures.cases_latent import LATENT_CASES  # noqa: E402
from tests.reference_models.counted import routed_evenly  # noqa: E402

SEQ = 24
EACH = ["mla_up_proj", "layernorm", "moe_act", "mlp", "moe", "shared_experts"]
WAYS = [Settings("eager", "fp32", device="cpu"), Settings("sdpa", "bf16", device="cpu")]
TOGETHER = ["mla_up_proj+layernorm+moe_act", "moe+layernorm", "mlp+mla_up_proj+shared_experts"]


class _Run(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, freed: Freed, run: Callable[..., Any], *reads: Any) -> Any:
        ctx.freed, freed.run = freed, run
        ctx.save_for_backward(*reads)
        freed.ctx = ctx
        with torch.no_grad():
            return run(*reads)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        torch.autograd.backward(ctx.freed.again, grads)
        return (None, None, *(each.grad for each in ctx.freed.reads))


@dataclass
class Freed:
    """One run of a module whose results are freed behind the forward pass and made anew ahead of backward."""

    made: tuple[Any, ...] = ()
    run: Any = None
    ctx: Any = None
    reads: list[Any] = field(default_factory=list)
    again: tuple[Any, ...] = ()

    def __call__(self, run: Callable[..., Any], *reads: Any) -> Any:
        made = _Run.apply(self, run, *reads)
        self.made = made if isinstance(made, tuple) else (made,)
        return made

    def free(self) -> None:
        for each in self.made:
            each.untyped_storage().resize_(0)

    def restore(self) -> None:
        self.reads = [each.detach().requires_grad_() for each in self.ctx.saved_tensors]
        with torch.enable_grad():
            again = self.run(*self.reads)
        self.again = again if isinstance(again, tuple) else (again,)
        for old, new in zip(self.made, self.again, strict=True):
            old.untyped_storage().resize_(new.untyped_storage().nbytes())
            old.untyped_storage().copy_(new.untyped_storage())


def of_latents(freed: Callable[[], Freed]) -> Callable[..., Any]:
    """Latent attention, what makes its queries, keys and values in one piece."""

    def forward(self: LatentAttention, x: Any, step: Any, cache: Any = None) -> Any:
        spec = self.spec

        def up(q_small: Any, small: Any) -> Any:
            latent, k_rope = small.split([spec.kv_rank, spec.d_shared], dim=-1)
            q = split(self.q_b_proj(self.q_a_norm(q_small)), spec.n_heads)
            q, q_rope = q.split([spec.d_nope, spec.d_shared], dim=-1)
            turned = angles(spec.rope, spec.d_shared, step)
            q_rope = turn(q_rope, *turned, interleaved=spec.rope.interleaved)
            k_rope = turn(k_rope[:, None], *turned, interleaved=spec.rope.interleaved)
            expanded = self.kv_b_proj(self.kv_a_norm(latent))
            k = split(expanded, spec.n_heads)[..., : spec.d_nope]
            k = torch.cat([k, k_rope.expand(-1, spec.n_heads, -1, -1)], -1)
            return torch.cat([q, q_rope], -1), k, expanded

        q, k, expanded = freed()(up, self.q_a_proj(x), self.kv_a_proj(x))
        v = split(expanded, spec.n_heads)[..., spec.d_nope :]
        mask = step.mask(x.shape[1], torch.arange(x.shape[1]), causal=True)
        y = attend(self.scores, q, k, v, step, mask=mask, plain=True, causal=True)
        return self.o_proj(y.transpose(1, 2).flatten(2))

    return forward


def patched(model: Any, modules: set[str]) -> list[Freed]:
    """The model with modules that are computed again; what of them frees its results."""
    found: list[Freed] = []

    def freed() -> Freed:
        found.append(Freed())
        return found[-1]

    def freeing(run: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *reads: freed()(run, *reads)

    def keeping(run: Callable[..., Any]) -> Callable[..., Any]:
        return lambda x, *others: checkpoint(lambda x: run(x, *others), x, use_reentrant=True)

    for path, module in model.named_modules():
        own = path.rsplit(".", 1)[-1]
        if isinstance(module, LatentAttention) and "mla_up_proj" in modules:
            module.forward = MethodType(of_latents(freed), module)
        elif own in ("attention_norm", "channel_norm") and "layernorm" in modules:
            experts = isinstance(getattr(model.get_submodule(path.rsplit(".", 1)[0]), "moe", None), MixtureOfExperts)
            if own == "attention_norm" or experts:
                module.forward = freeing(module.forward)
        elif isinstance(module, FeedForward) and ".experts." in path and "moe_act" in modules:
            module._gated = freeing(module._gated)
        elif own in modules & {"mlp", "moe"} or (own == "shared_expert" and "shared_experts" in modules):
            module.forward = keeping(module.forward)
    return found


def spec_of() -> ModelSpec:
    """Latent attention over a dense block and experts. Values are as wide as keys, which one kernel asks for."""
    config = LATENT_CASES["deepseek_v3"][0]
    wide = config["qk_nope_head_dim"] + config["qk_rope_head_dim"]
    return from_config({"model_type": "deepseek_v3", **config, "v_head_dim": wide})


def kept_and_gradients(spec: ModelSpec, how: Settings, modules: set[str]) -> tuple[int, list[Any]]:
    """Bytes that autograd keeps once what is freed is freed, and the gradients of all weights."""
    torch.manual_seed(0)
    model = routed_evenly(build(spec, dtype=torch.bfloat16 if how.dtype == "bf16" else torch.float32))
    freed = patched(model, modules)
    tokens = torch.randint(spec.vocab_size or 1, (2, SEQ), generator=torch.Generator().manual_seed(1))
    held: dict[int, Any] = {}

    def pack(tensor: Any) -> Any:
        held.setdefault(tensor.untyped_storage()._cdata, tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        logits = model(tokens, kernel=how.execution).logits
        loss = torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), tokens.roll(-1, 1).flatten())
    for one in freed:
        one.free()
    own = {each.untyped_storage()._cdata for each in model.parameters()}
    total = sum(each.untyped_storage().nbytes() for key, each in held.items() if key not in own)
    for one in freed:
        one.restore()
    loss.backward()
    return total, [each.grad for each in model.parameters()]


@pytest.mark.parametrize("modules", [*EACH, *TOGETHER])
@pytest.mark.parametrize("how", WAYS, ids=["eager", "sdpa"])
def test_what_modules_keep(modules: str, how: Settings) -> None:
    spec, names = spec_of(), set(modules.split("+"))
    plain, gradients = kept_and_gradients(spec, how, set())
    found, same = kept_and_gradients(spec, how, names)
    for settings, kept in ((how, plain), (replace(how, recompute=frozenset(names)), found)):
        written = saved_tensors(spec, Load(batch=2, seq=SEQ), settings).everything()
        assert kept == sum(count * each.tensor.bytes for count, each in written)
    assert found < plain
    for one, other in zip(gradients, same, strict=True):
        torch.testing.assert_close(one, other)


def test_modules_that_a_model_has_none_of() -> None:
    spec = load_model("gpt2")
    with pytest.raises(Refused, match=r"recompute: expected modules that the model has \(core_attn, mlp\)"):
        saved_tensors(spec, Load(batch=1, seq=8), Settings(recompute=frozenset({"moe_act"})))
