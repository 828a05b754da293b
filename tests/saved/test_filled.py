"""What texts that are filled up to whole blocks keep, of transformers' own BigBird and Longformer."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from calc.architectures import from_config  # noqa: E402
from calc.quantities.saved_tensors import saved_tensors  # noqa: E402
from calc.spec.load import Load  # noqa: E402
from calc.trace.settings import Settings  # noqa: E402
from reference_models.saved import still_kept  # noqa: E402
from tests.architectures.cases_text import TEXT  # noqa: E402

BATCH = 2
IN_BLOCKS = {"max_position_embeddings": 96, "block_size": 4, "num_random_blocks": 1}
IN_WINDOWS = {"max_position_embeddings": 80, "attention_window": 16}
SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 1}
DROPOUTS = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


@pytest.mark.parametrize("seq", [61, 64])
@pytest.mark.parametrize(
    ("family", "name", "changed"),
    [
        ("big_bird", "BigBirdModel", IN_BLOCKS),
        ("big_bird", "BigBirdForPreTraining", IN_BLOCKS),
        ("big_bird", "BigBirdForSequenceClassification", IN_BLOCKS),
        ("longformer", "LongformerModel", IN_WINDOWS),
    ],
)
def test_the_first_vector_keeps_all_with_what_fills_up(
    family: str, name: str, changed: dict[str, int], seq: int
) -> None:
    """But for 8 bytes a token, of indices and constants: a vector of a token has 128."""
    raw = TEXT[family][0] | changed | {"architectures": [name]}
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(family, **SPECIAL, **DROPOUTS, **raw)
    model = getattr(transformers, name)._from_config(config, attn_implementation="eager").train()
    tokens = torch.randint(3, 90, (BATCH, seq))
    labels = {
        "BigBirdForPreTraining": {"labels": tokens, "next_sentence_label": torch.zeros(BATCH, dtype=torch.long)},
        "BigBirdForSequenceClassification": {"labels": torch.zeros(BATCH, dtype=torch.long)},
    }
    found = still_kept(model, lambda: model(tokens, **labels.get(name, {})))
    load, how = Load(batch=BATCH, seq=seq), Settings("eager", "fp32", device="cpu")
    spec = from_config({"model_type": family, **raw})
    counted = sum(n * each.tensor.bytes for n, each in saved_tensors(spec, load, how).everything())
    assert abs(counted - found) <= 8 * BATCH * seq
