"""Attention over keys and values of their own heads."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from calc.errors import Refused
from calc.spec.block_indexer import BlockIndexer
from calc.spec.convolved import Convolved
from calc.spec.fields import Dim, Node
from calc.spec.head_experts import HeadExperts
from calc.spec.norm import Norm, QkNorm
from calc.spec.positions import BY_DISTANCE, Buckets, Disentangled, Shaw, Temperature
from calc.spec.rope import Rope
from calc.spec.sparse_blocks import SparseBlocks


class Attention(Node):
    """Self-attention: multi-head (Vaswani et al. 2017), multi-query (Shazeer 2019), grouped-query (Ainslie 2023).

    n_kv_heads: None means n_heads. d_head: None means d_model / n_heads.
    window: each token attends to the last `window` tokens, itself included; None means all.
    sinks: a learned logit a head that takes part in the softmax (gpt-oss). softcap: logits pass c * tanh(x / c).
    fused: query, key and value projections are one matrix. k_bias: whether keys have a bias; None: as qkv_bias.
    d_value: width of a value head; None means d_head. causal: a token sees only those before it.
    buckets, shaw, disentangled: learned relative positions, beside which `position` is none. `transformer-xl`: scores
        of distances beside those of keys (Dai et al. 2019), for tokens that all see one another;
        `transformer-xl-each`: which are projected for each sequence (Parakeet). `added`: what the
        front gives beside its vectors is added to what queries and keys are projected from, in every layer, and not to
        values (DETR: Carion et al. 2020, section 3.2); attention over a source adds the source's to the keys. `xlnet`:
        as transformer-xl, with one distance more, projected for each sequence, and learned vectors of segments beside
        them that a text without segments leaves unread (Yang et al. 2019, arXiv:1906.08237, section 2.5).
    kv: whose keys and values are used. `own`; `keys`: the values are the projected keys (Gemma 4's global layers);
        `earlier`: both are those of the last layer of this kind that has its own, so none are projected or cached.
    v_norm: a norm on each head's values. chunked: the window is a chunk: tokens attend to those of their own chunk of
        `window` tokens, and the cache is kept as for a sliding window (Llama 4).
    gate: the query projection also makes a gate for each value, whose sigmoid scales the result (Qwen3-Next).
    head_gate: a projection of its own makes one number a head, whose sigmoid, or softplus in fp32, scales what the head
        gives (LFM3, Laguna). inner_norm: a norm on what all heads give, ahead of the output projection (BitNet).
    rope: how far rotary positions turn, where `position` is rope. scale: what scores are multiplied with; None means
        1 / sqrt(d_head). by_depth: scores are divided by the number of the layer too, the first being 1 (Mistral's
        GPT-2s). temperature: as it says there.
    softmax: the number format it is computed in where it is written out: fp32 whatever the model is in, or the model's
        (GPT-2, BERT). It changes what training keeps, and no count.
    alibi_scaled: ALiBi's numbers are multiplied with the scale as well (Falcon).
    clip: queries, keys and values are cut to [-clip, clip], behind their norm and before they turn (OLMo, DBRX).
    value_scale: what values are multiplied with (MiMo-V2). masked_window: a window that hides tokens and saves nothing:
        all pairs are multiplied and all tokens cached (GPT-Neo). squares: the patches of a picture see those of their
        own square of so many patches a side, and no others are multiplied (Qwen2.5-VL).
    experts: as it says there; of n_heads, each of the experts that a token visits has as many as there are key-value
        heads, and out_bias is added behind their sum.
    differential: of two heads, one of each half, the second is taken off the first, times a learned number, and what is
        left passes this norm (Ye et al. 2024, arXiv:2410.05258). Both read the values of two heads side by side: scores
        of all heads are multiplied once with those of either half, as in DiffLlama.
    span: beside the heads, each token weighs so many tokens around it by weights that it makes of its query and their
        keys, and the result stands behind that of the heads (ConvBERT).
    longest: of longer sequences it is not described which tokens see which (SeamlessM4T's speech).
    sparse: long texts attend to blocks, as it says there (BigBird).
    dynamic_mask: to the scores of each key a number is added that its values make, exp(a * softplus(w values)), with w
        and a learned for each key-value head; of more keys than so many, each query sees as many, those of the largest
        numbers, and all pairs are multiplied (Shi et al. 2025, arXiv:2508.02124, as in Doge). None: there is none.
    merged: behind the keys and values of the tokens stand those of an encoder's vectors, made by the same matrices and
        norms and not turned; all of them are seen (T5Gemma 2). lopsided: of a window to both sides, which reaches one
        token further ahead than behind.
    convolved: as it says there; `qkv_bias` is then on all four projections.
    cached: False where keys and values are run anew for each text and none are kept (BLT's patches).
    indexer: chooses which tokens each query attends to; all pairs are multiplied, and what is not chosen is hidden.
    repeated: keys and values that heads share are laid out for each, or PyTorch's kernel is told that they are shared;
        False: it is given one head of them and told nothing, for which it writes scores out (Falcon).
    """

    kind: Literal["attention"] = "attention"
    n_heads: Dim
    n_kv_heads: Dim | None = None
    d_head: Dim | None = None
    d_value: Dim | None = None
    causal: bool = True
    qkv_bias: bool = False
    k_bias: bool | None = None
    out_bias: bool = False
    fused: bool = False
    qk_norm: QkNorm | None = None
    kv: Literal["own", "keys", "earlier"] = "own"
    v_norm: Norm | None = None
    window: Dim | None = None
    chunked: bool = False
    softcap: float | None = Field(default=None, gt=0)
    sinks: bool = False
    gate: bool = False
    head_gate: Literal["sigmoid", "softplus"] | None = None
    inner_norm: Norm | None = None
    position: Literal["rope", "alibi", "transformer-xl", "transformer-xl-each", "xlnet", "added", "none"] = "rope"
    buckets: Buckets | None = None
    shaw: Shaw | None = None
    disentangled: Disentangled | None = None
    rope: Rope = Rope()
    scale: float | None = None
    by_depth: bool = False
    temperature: Temperature | None = None
    alibi_scaled: bool = False
    clip: float | None = Field(default=None, gt=0)
    value_scale: float = 1.0
    masked_window: int | None = Field(default=None, gt=0)
    softmax: Literal["fp32", "model"] = "fp32"
    squares: int | None = Field(default=None, gt=0, le=2**16)
    experts: HeadExperts | None = None
    differential: Norm | None = None
    span: int | None = Field(default=None, gt=0, le=10**4)
    longest: int | None = Field(default=None, gt=0, le=2**31)
    sparse: SparseBlocks | None = None
    dynamic_mask: int | None = Field(default=None, gt=0, le=2**31)
    merged: bool = False
    lopsided: bool = False
    convolved: Convolved | None = None
    indexer: BlockIndexer | None = None
    repeated: bool = True
    cached: bool = True

    @property
    def kv_heads(self) -> int:
        """Heads of keys and values, said or not."""
        return self.n_heads if self.n_kv_heads is None else self.n_kv_heads

    @model_validator(mode="after")
    def _groups(self) -> Self:
        if self.n_kv_heads is not None and self.n_heads % self.n_kv_heads:
            raise Refused("n_kv_heads", f"a divisor of n_heads = {self.n_heads}", self.n_kv_heads)
        return self

    @model_validator(mode="after")
    def _routed(self) -> Self:
        if self.experts is None:
            return self
        if self.n_heads != self.experts.top_k * self.kv_heads:
            raise Refused("n_heads", f"{self.experts.top_k} experts' heads, each key-value head once", self.n_heads)
        plain = ("qkv_bias", "fused", "qk_norm", "gate", "head_gate", "inner_norm", "squares", "clip")
        if self.kv != "own" or self.position == "added" or (self.position == "rope" and self.rope.inputs):
            raise Refused("experts", "none where queries have a place of their own, or borrowed keys", "some")
        if others := [name for name in plain if getattr(self, name)]:
            raise Refused("experts", f"none beside {others[0]}", "some")
        return self

    @model_validator(mode="after")
    def _paired(self) -> Self:
        if self.differential is None:
            return self
        if self.kv_heads % 2:
            raise Refused("n_kv_heads", "an even number, since differential heads are pairs", self.kv_heads)
        alone = ("gate", "head_gate", "inner_norm", "sinks", "shaw", "buckets", "squares", "experts", "d_value")
        if others := [name for name in alone if getattr(self, name)]:
            raise Refused("differential", f"none beside {others[0]}", "a norm")
        if self.kv != "own" or not self.causal or self.position not in ("rope", "none"):
            raise Refused("differential", "none, unless tokens see those before them, by keys of their own", "a norm")
        return self

    @model_validator(mode="after")
    def _masked_by_values(self) -> Self:
        alone = ("buckets", "shaw", "sinks", "softcap", "masked_window", "chunked", "experts", "differential", "span")
        others = [name for name in alone if getattr(self, name)] if self.dynamic_mask is not None else []
        if others or (self.dynamic_mask is not None and (self.position not in ("rope", "none") or not self.causal)):
            raise Refused("dynamic_mask", f"null beside {others[0] if others else self.position}", self.dynamic_mask)
        if self.dynamic_mask is not None and (self.kv != "own" or self.disentangled is not None):
            raise Refused("dynamic_mask", "null where keys and values are not the layer's own", self.dynamic_mask)
        return self

    @model_validator(mode="after")
    def _chosen_by_an_indexer(self) -> Self:
        if self.indexer is None:
            return self
        if not self.causal or not self.cached or self.kv != "own" or self.position != "rope" or self.window is not None:
            raise Refused("indexer", "none, unless tokens see all before them, by keys of their own that turn", "one")
        alone = ("buckets", "shaw", "sinks", "softcap", "masked_window", "experts", "differential", "dynamic_mask")
        if others := [name for name in (*alone, "merged", "convolved") if getattr(self, name)]:
            raise Refused("indexer", f"none beside {others[0]}", "one")
        return self

    @model_validator(mode="after")
    def _merged_with_a_source(self) -> Self:
        if not self.merged:
            return self
        if not self.causal or self.kv != "own" or self.position not in ("rope", "none"):
            raise Refused("merged", "false, unless tokens see those before them, by keys of their own", True)
        plain = ("fused", "experts", "differential", "squares", "shaw", "buckets", "v_norm", "clip", "sinks", "softcap")
        if others := [name for name in (*plain, "masked_window", "chunked", "dynamic_mask") if getattr(self, name)]:
            raise Refused("merged", f"false beside {others[0]}", True)
        if self.value_scale != 1.0 or (self.qk_norm is not None and self.qk_norm.turned):
            raise Refused("merged", "false where values are scaled, or keys normed once they are turned", True)
        return self

    @model_validator(mode="after")
    def _convolved_inputs(self) -> Self:
        if self.convolved is None:
            return self
        if not self.causal or self.kv != "own" or self.position not in ("rope", "none") or self.rope.inputs:
            raise Refused("convolved", "none, unless tokens see those before them, by keys of their own", "some")
        plain = ("fused", "qk_norm", "v_norm", "gate", "clip", "experts", "differential", "squares", "shaw", "buckets")
        if others := [name for name in (*plain, "d_value", "merged", "dynamic_mask") if getattr(self, name)]:
            raise Refused("convolved", f"none beside {others[0]}", "some")
        if self.value_scale != 1.0 or self.k_bias is not None:
            raise Refused("convolved", "none beside a value_scale or a k_bias", "some")
        if self.d_head is None or self.kv_heads * self.d_head % 2:
            raise Refused("d_head", "given, and an even number with n_kv_heads, half of which are delayed", self.d_head)
        return self

    @model_validator(mode="after")
    def _plain_in_blocks(self) -> Self:
        alone = ("buckets", "shaw", "disentangled", "sinks", "softcap", "gate", "head_gate", "inner_norm", "qk_norm")
        alone += ("v_norm", "window", "masked_window", "squares", "span", "fused", "experts", "differential", "d_value")
        alone += ("temperature", "clip", "dynamic_mask", "indexer", "merged", "convolved", "by_depth")
        others = [name for name in alone if getattr(self, name)] if self.sparse is not None else []
        if others or (self.sparse is not None and self.kv_heads != self.n_heads):
            raise Refused("sparse", f"none beside {others[0] if others else 'keys that heads share'}", "some")
        if self.sparse is not None and (self.position != "none" or self.kv != "own" or self.value_scale != 1.0):
            raise Refused("sparse", "none, unless queries and keys are as they are projected", "some")
        return self

    @model_validator(mode="after")
    def _one_kind_of_position(self) -> Self:
        learned = (self.buckets, self.shaw, self.disentangled)
        if (self.position != "none") + sum(each is not None for each in learned) > 1:
            raise Refused("position", "none beside learned relative positions, and one kind of those", self.position)
        return self

    @model_validator(mode="after")
    def _keys_and_values(self) -> Self:
        if self.kv != "own" and (self.fused or self.d_value is not None):
            raise Refused("kv", "own, with fused projections or a d_value", self.kv)
        if self.position == "added" and (self.fused or self.causal):
            raise Refused("position", "another kind with fused projections or a cache", self.position)
        if self.position == "rope" and self.rope.inputs and self.fused:
            raise Refused("rope.inputs", "false with fused projections, which read values too", True)
        if self.position in BY_DISTANCE and (self.causal or self.window is not None):
            raise Refused("position", "another kind where not all tokens see one another", self.position)
        if self.disentangled is not None and (self.causal or self.window is not None or self.fused):
            raise Refused("disentangled", "none where not all tokens see one another, or projections are fused", "some")
        if self.span is not None and (self.causal or self.window is not None or self.fused or self.gate):
            raise Refused("span", "null where not all tokens see one another, and with a gate", self.span)
        own = self.experts is not None or self.differential is not None
        if own and (self.span is not None or self.disentangled is not None):
            raise Refused("span", "null, and no disentangled distances, beside experts or differences", self.span)
        if self.span is not None and self.span % 2 == 0:
            raise Refused("span", "an odd number of tokens, as many on both sides", self.span)
        if self.squares is not None and (self.causal or self.window is not None):
            raise Refused("squares", "null where not all vectors of a square see one another", self.squares)
        if self.chunked and self.window is None:
            raise Refused("window", "the length of a chunk", None)
        if self.lopsided and (self.causal or self.window is None):
            raise Refused("lopsided", "false, unless a window reaches to both sides", True)
        return self
