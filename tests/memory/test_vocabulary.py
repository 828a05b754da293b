"""What a tensor-parallel rank runs and keeps of a token table whose rows ranks divide."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from calc.blocks.build import build  # noqa: E402
from calc.memory.on_rank import saved_on_rank  # noqa: E402
from calc.quantities.saved_tensors import saved_tensors  # noqa: E402
from calc.spec import Attention  # noqa: E402
from calc.spec.load import Load  # noqa: E402
from calc.spec.run import Run  # noqa: E402
from calc.time.step.rank_share import share_of  # noqa: E402
from calc.trace.part import leaves  # noqa: E402
from calc.trace.settings import Settings  # noqa: E402
from tests.memory.rank_blocks import of  # noqa: E402

BATCH, SEQ, VOCABULARY, WIDTH = 2, 24, 32, 16


def kept_by_autograd(tp: int) -> int:
    """Bytes that looking up on the first rank keeps, as Megatron-LM's VocabParallelEmbedding writes it."""
    rows = VOCABULARY // tp
    table = torch.nn.Parameter(torch.randn(rows, WIDTH))
    tokens = torch.randint(0, VOCABULARY, (BATCH, SEQ))
    found: list[int] = []

    def keep(x: torch.Tensor) -> torch.Tensor:
        found.append(x.numel() * x.element_size())
        return x

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        if tp == 1:
            torch.nn.functional.embedding(tokens, table)
        else:
            elsewhere = tokens >= rows
            own = tokens.clone()
            own[elsewhere] = 0
            torch.nn.functional.embedding(own, table)[elsewhere, :] = 0.0
    return sum(found)


@pytest.mark.parametrize("tp", [1, 2, 4])
@pytest.mark.parametrize("sequence_parallel", [True, False])
def test_a_rank_keeps_which_rows_are_its_own(tp: int, sequence_parallel: bool) -> None:
    made = saved_tensors(of(Attention(n_heads=4)), Load(batch=BATCH, seq=SEQ), Settings("sdpa", "bf16"))
    run = Run(tp=tp, batch=BATCH, seq=SEQ, sequence_parallel=sequence_parallel)
    assert sum(saved_on_rank(each, run) for each in made.front) == kept_by_autograd(tp)


@pytest.mark.parametrize("sequence_parallel", [True, False])
def test_a_rank_makes_vectors_of_all_tokens_and_zeroes_those_of_others(sequence_parallel: bool) -> None:
    """Of four ranks' rows three quarters are another's, in all tokens, whatever part of them it has between blocks."""
    run = Run(tp=4, batch=BATCH, seq=SEQ, sequence_parallel=sequence_parallel)
    tree = leaves(build(of(Attention(n_heads=4)), Load(batch=BATCH, seq=SEQ)))
    (lookup,) = (leaf for leaf in tree if leaf.op.name == "token")
    assert float(lookup.op.writes) * share_of(lookup, run).writes == BATCH * SEQ * WIDTH * (1 + 3 / 4)
