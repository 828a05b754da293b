"""A head for layers that transformers has alone: Step 3.5's class with one comes with its checkpoint."""

from __future__ import annotations

from typing import Any, ClassVar

import transformers
from torch import nn
from transformers.modeling_outputs import CausalLMOutputWithPast
from transformers.models.step3p7.configuration_step3p7 import Step3p7TextConfig
from transformers.models.step3p7.modeling_step3p7 import Step3p7PreTrainedModel, Step3p7TextModel


class Step3p5ForCausalLM(Step3p7PreTrainedModel):
    """transformers' layers and a head, as Step3p7ForConditionalGeneration has them without its tower."""

    config_class = Step3p7TextConfig
    _tied_weights_keys: ClassVar[Any] = {"lm_head.weight": "model.embed_tokens.weight"}

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.model = Step3p7TextModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def get_output_embeddings(self) -> nn.Module:
        return self.lm_head

    def forward(self, input_ids: Any, labels: Any = None, **more: Any) -> CausalLMOutputWithPast:
        """input_ids [batch, seq] -> logits [batch, seq, vocab_size], and the loss of `labels` where they are given."""
        found = self.model(input_ids, **more)
        logits = self.lm_head(found.last_hidden_state)
        loss = None if labels is None else self.loss_function(logits, labels, self.config.vocab_size)
        return CausalLMOutputWithPast(loss=loss, logits=logits, past_key_values=found.past_key_values)


HEADED: dict[str, Any] = {"step3p5": Step3p5ForCausalLM}
"""model_type -> the class, which AutoModelForCausalLM knows where this module is imported."""
transformers.AutoModelForCausalLM.register(Step3p7TextConfig, Step3p5ForCausalLM)
