"""The alphabet: every size a formula may hold, with its symbol, unit and meaning."""

from __future__ import annotations

from typing import NamedTuple


class Symbol(NamedTuple):
    """One letter of the alphabet; `name` is also the field in a spec and the name `solve --for` takes."""

    name: str
    latex: str
    unit: str
    meaning: str


SYMBOLS = (
    Symbol("d_model", "d", "elements", "width of the residual stream"),
    Symbol("n_layers", "L", "layers", "number of layers"),
    Symbol("n_heads", "h", "heads", "query heads"),
    Symbol("n_kv_heads", "h_{kv}", "heads", "key and value heads"),
    Symbol("d_head", "d_h", "elements", "width of one attention head"),
    Symbol("d_ff", "d_{ff}", "elements", "inner width of the feed-forward block"),
    Symbol("n_experts", "E", "experts", "routed experts in a layer"),
    Symbol("n_keys", "E_k", "keys", "halves of keys of each of two kinds, which experts are retrieved by"),
    Symbol("n_zero", "E_0", "experts", "experts in a layer that give back what they read"),
    Symbol("top_k", "k", "experts", "routed experts that one token visits"),
    Symbol("d_expert", "d_e", "elements", "inner width of one routed expert"),
    Symbol("d_shared", "d_s", "elements", "inner width of all shared experts together"),
    Symbol("series_length", "T", "values", "values of each channel of a time series"),
    Symbol("d_patch", "P", "values", "values of a time series in one patch"),
    Symbol("patch_stride", "S", "values", "values of a time series from a patch to the next"),
    Symbol("d_router", "d_{router}", "elements", "width inside a router of several layers"),
    Symbol("d_latent", "d_{lat}", "elements", "width of what routed experts read, where it is not d_model"),
    Symbol("n_head_experts", "E_h", "experts", "experts that have queries and outputs of attention"),
    Symbol("head_top_k", "k_h", "experts", "such experts that one token visits"),
    Symbol("vocab_size", "V", "tokens", "rows of the token embedding"),
    Symbol("d_embed", "d_{emb}", "elements", "width of the token embedding, where it is not d_model"),
    Symbol("n_positions", "P", "positions", "rows of the learned position embedding"),
    Symbol("d_per_layer", "d_{pl}", "elements", "width of the input that every layer has of its own"),
    Symbol("window", "W", "tokens", "length of a sliding attention window"),
    Symbol("d_map", "d_m", "elements", "width of the maps of every stage of a picture"),
    Symbol("n_points", "n_{pt}", "points", "points of a prompt that says what is to be found in a picture"),
    Symbol("d_two_way", "d_{2w}", "elements", "inner width of layers in which a prompt and a picture read one another"),
    Symbol("position_rows", "r_P", "rows", "rows of the grid that positions of patches are learned for"),
    Symbol("position_columns", "c_P", "columns", "columns of the grid that positions of patches are learned for"),
    Symbol("position_side", "s_P", "patches", "patches along a side of a window whose places are learned"),
    Symbol("window_side", "W_p", "patches", "side of a window of patches that see one another"),
    Symbol("axis_reach", "R_p", "patches", "patches along an axis for whose distances vectors are learned"),
    Symbol(
        "d_relative_bias",
        "d_{rb}",
        "elements",
        "inner width of the network behind biases of relative positions",
    ),
    Symbol("d_merged", "d_{mer}", "elements", "width of what merging patches gives"),
    Symbol("block_length", "S_b", "tokens", "length of a block within which, and beside which, tokens see one another"),
    Symbol("summary_length", "S_{sum}", "tokens", "tokens that are summed up for all others to see"),
    Symbol("band_reach", "W_r", "tokens", "tokens that one sees to either side"),
    Symbol("fill_multiple", "S_f", "tokens", "length to a multiple of which a text is filled up"),
    Symbol("d_value", "d_v", "elements", "width of one attention head's values"),
    Symbol("n_mtp", "L_{mtp}", "modules", "modules that predict further tokens"),
    Symbol("n_altup", "n_{alt}", "streams", "residual streams, on one of which the layers work"),
    Symbol("laurel_rank", "r_{lau}", "elements", "width of the bottleneck of a learned augmented residual"),
    Symbol("n_streams", "n_{hc}", "streams", "residual streams that hyper-connections mix"),
    Symbol("stream_rank", "r_{hc}", "elements", "width of the bottleneck behind the gates of residual streams"),
    Symbol("n_ngram_rows", "V_{ng}", "rows", "rows of a table of hashed n-grams"),
    Symbol("d_ngram", "d_{ng}", "elements", "width of a token's n-gram vectors side by side"),
    Symbol("n_ngram_taps", "k_{ng}", "tokens", "taps of the convolution behind n-gram vectors"),
    Symbol("compress_rate", "m", "tokens", "tokens that one compressed entry stands for"),
    Symbol("n_out_groups", "g", "groups", "groups of heads that are projected apart"),
    Symbol("out_rank", "r_o", "elements", "width that one group of heads is projected to"),
    Symbol("q_rank", "r_q", "elements", "width of the latent that queries come from"),
    Symbol("kv_rank", "r_{kv}", "elements", "width of the latent that keys and values come from"),
    Symbol("d_nope", "d_{nope}", "elements", "width of one head's queries and keys without positions"),
    Symbol("d_rope", "d_{rope}", "elements", "width of the rotary part of queries and keys"),
    Symbol("n_index_heads", "h_I", "heads", "heads of an indexer"),
    Symbol("d_index", "d_I", "elements", "width of one head of an indexer"),
    Symbol("index_top_k", "k_I", "tokens", "tokens that an indexer chooses for each query"),
    Symbol("index_pool", "p_I", "tokens", "tokens of a pool, which an indexer chooses or leaves together"),
    Symbol("n_token_types", "P_{type}", "types", "rows of the segment table"),
    Symbol("n_buckets", "b", "buckets", "buckets of distances in a relative position table"),
    Symbol("n_box_buckets", "b_{box}", "buckets", "buckets of distances between boxes on a page"),
    Symbol("n_box_places", "P_{box}", "places", "places along one side of a page"),
    Symbol("d_place", "d_{pl}", "elements", "width of the vector of one end of a box"),
    Symbol("d_extent", "d_{ext}", "elements", "width of the vector of a box's height or width"),
    Symbol("n_markers", "V_{m}", "rows", "rows of a table of tokens that stand for pictures or sounds"),
    Symbol("d_marker", "d_{m}", "elements", "width of such a row"),
    Symbol("n_hashes", "P_{hash}", "hashes", "rows of a table that groups of bytes are hashed into"),
    Symbol("bytes_of_patch", "s_p", "bytes", "bytes of a patch"),
    Symbol("d_patch", "d_p", "elements", "width of the vector of a patch of bytes"),
    Symbol("n_tiles", "n_{tile}", "tiles", "tiles that a picture is cut into"),
    Symbol("n_tile_shapes", "n_{shape}", "shapes", "rows of the tables for the shapes that tiles make up"),
    Symbol("n_distances", "n_{dist}", "distances", "distances of each sign in a table of their vectors"),
    Symbol("n_angles", "n_{ang}", "positions", "rows of a table of angles that is held untrained"),
    Symbol("d_angles", "d_{ang}", "elements", "width of a table of angles that is held untrained"),
    Symbol("max_distance", "c", "tokens", "distance at which relative positions are clipped"),
    Symbol("max_ahead", "c_+", "tokens", "distance ahead at which relative positions are clipped"),
    Symbol("n_tokens", "V_0", "tokens", "rows of a token table that nothing reads"),
    Symbol("n_steps", "T", "steps", "rows of the table of an episode's time steps"),
    Symbol("d_state", "d_{st}", "elements", "numbers in a state"),
    Symbol("d_action", "d_{ac}", "elements", "numbers in an action"),
    Symbol("n_logits", "V_{out}", "tokens", "rows of the head's own table, where they are not vocab_size"),
    Symbol("d_in", "d_{in}", "elements", "width that a projection behind the layers reads"),
    Symbol("d_out", "d_{out}", "elements", "width that a projection behind the layers gives"),
    Symbol("d_contrast", "d_{con}", "elements", "width in which texts and pictures are compared"),
    Symbol("n_frames", "F", "frames", "frames or samples of sound that the model is made for"),
    Symbol("d_frame", "d_{fr}", "values", "values of one frame of sound"),
    Symbol("n_channels", "c", "channels", "channels that a convolution gives"),
    Symbol("n_entries", "n_{code}", "entries", "entries of one codebook"),
    Symbol("d_code", "d_{code}", "elements", "width of the chosen codebook entries together"),
    Symbol("d_target", "d_{tgt}", "elements", "width of the targets made of them"),
    Symbol("axis_positions", "P_{axis}", "positions", "rows of a learned table for rows or columns"),
    Symbol("n_queries", "n_q", "queries", "learned vectors that a detector starts from"),
    Symbol("n_numbers", "n_{num}", "columns", "columns of numbers in a table"),
    Symbol("latent_height", "H_{vae}", "latents", "height of a picture that the model is made for"),
    Symbol("latent_width", "W_{vae}", "latents", "width of a picture that the model is made for"),
    Symbol("patch", "p", "latents", "side of a square patch of latents"),
    Symbol("latent_channels", "c_{vae}", "values", "values of one latent"),
    Symbol("d_time", "d_t", "elements", "sinusoids that tell a step of denoising"),
    Symbol("d_pooled", "d_{pool}", "elements", "width of one vector of a whole text"),
    Symbol("d_text", "d_{txt}", "elements", "width of the vectors of a text beside a picture"),
    Symbol("n_text", "S_{txt}", "vectors", "vectors of a text beside a picture"),
    Symbol("n_class_rows", "n_{cls}", "classes", "rows of a table of classes, with that of none"),
    Symbol("d_denoised", "d_{den}", "elements", "values that a denoiser gives for each patch"),
    Symbol("height", "H_{px}", "pixels", "height of a picture that the model is made for"),
    Symbol("width", "W_{px}", "pixels", "width of a picture that the model is made for"),
    Symbol("patch_height", "p_H", "pixels", "height of one patch"),
    Symbol("patch_width", "p_W", "pixels", "width of one patch"),
    Symbol("stride_height", "s_H", "pixels", "from one row of patches to the next"),
    Symbol("stride_width", "s_W", "pixels", "from one column of patches to the next"),
    Symbol("channels", "c_{px}", "values", "values of one pixel"),
    Symbol("d_inner", "d_{inner}", "elements", "channels of a state-space block"),
    Symbol("d_ssm", "N_{ssm}", "elements", "state of one channel of a state-space block"),
    Symbol("d_head_conv", "K_h", "tokens", "taps of the convolution within each head of queries and keys"),
    Symbol("d_conv", "K", "tokens", "taps of the convolution before a recurrence"),
    Symbol("dt_rank", "r", "elements", "width through which a state-space block's step size is projected"),
    Symbol("n_ssm_heads", "h_{ssm}", "heads", "heads of a state-space block"),
    Symbol("d_ssm_head", "d_{ssm}", "elements", "channels of one head of a state-space block"),
    Symbol("n_groups", "G", "groups", "sets of B and C in a state-space block"),
    Symbol("chunk", "Q", "tokens", "tokens of a recurrence that are worked off as one product"),
    Symbol("n_key_heads", "h_k", "heads", "query and key heads of a delta net"),
    Symbol("n_value_heads", "h_v", "heads", "value heads of a delta net"),
    Symbol("d_key", "d_k", "elements", "width of one key head of a delta net"),
    Symbol("n_kda_heads", "h_{kda}", "heads", "heads of Kimi delta attention"),
    Symbol("d_kda_head", "d_{kda}", "elements", "width of one head of Kimi delta attention"),
    Symbol("n_rwkv_heads", "h_{rwkv}", "heads", "heads of RWKV's time mixing"),
    Symbol("d_rwkv_head", "d_{rwkv}", "elements", "width of one head of RWKV's time mixing"),
    Symbol("d_wkv", "d_{wkv}", "elements", "channels of RWKV-4's fading means"),
    Symbol("d_gated", "d_{conv}", "elements", "channels of a gated short convolution"),
    Symbol("d_lru", "d_{lru}", "elements", "channels of Griffin's recurrent block"),
    Symbol("n_lru_blocks", "h_{lru}", "blocks", "shares of these channels, each with matrices of its own"),
    Symbol("decay_rank", "r_w", "elements", "width of the bottleneck that RWKV's decays come out of"),
    Symbol("rate_rank", "r_a", "elements", "width of the bottleneck that RWKV's learning rates come out of"),
    Symbol("gate_rank", "r_g", "elements", "width of the bottleneck that RWKV's gates come out of"),
    Symbol("value_rank", "r_v", "elements", "width of the bottleneck that weighs the first layer's values"),
    Symbol("lora_rank", "r_{lora}", "elements", "rank of the trained update of a frozen matrix"),
    Symbol("n_prefix", "P_{pre}", "tokens", "trained keys and values in front of each layer's own"),
    Symbol("n_prompt", "P_{soft}", "tokens", "trained vectors in front of the embedded tokens"),
    Symbol("d_bottleneck", "m", "elements", "inner width of an adapter behind a block"),
    Symbol("batch", "B", "sequences", "sequences processed together"),
    Symbol("seq", "S", "tokens", "new tokens in each sequence"),
    Symbol("source_seq", "S_{src}", "tokens", "length of the encoder's input for each sequence"),
    Symbol("context", "C", "tokens", "tokens of each sequence already in the cache"),
    Symbol("b_dtype", "b", "bytes", "bytes of one number in the format that is asked for"),
    Symbol("b_cache", "b_{kv}", "bytes", "bytes of one number of keys and values"),
    Symbol("b_act", "b_a", "bytes", "bytes of one number of activations"),
    Symbol("b_weights", "b_w", "bytes", "bytes of one weight, as the recipe keeps it"),
    Symbol("b_gradients", "b_g", "bytes", "bytes of one gradient, as the recipe sums it"),
    Symbol("b_state", "b_{st}", "bytes", "bytes of one number of a recurrent state"),
)
BY_NAME = {symbol.name: symbol for symbol in SYMBOLS}


def describe(name: str) -> Symbol:
    """The entry of a symbol; a group's own size (`d_head_sliding`) is described from its base (`d_head`).

    Errors: KeyError for a name whose base is not in the alphabet.
    """
    if name in BY_NAME:
        return BY_NAME[name]
    known = _base(name)
    group = name[len(known.name) + 1 :].replace("_", " ")
    stem, _, index = known.latex.partition("_")
    subscript = ",".join(filter(None, (index.strip("{}"), rf"\mathrm{{{group}}}")))
    return Symbol(name, f"{stem}_{{{subscript}}}", known.unit, f"{known.meaning}, {group} layers")


def place(name: str) -> int:
    """Where a symbol stands in the alphabet."""
    return SYMBOLS.index(BY_NAME.get(name) or _base(name))


def _base(name: str) -> Symbol:
    bases = [base for base in BY_NAME if name.startswith(f"{base}_")]
    if not bases:
        raise KeyError(name)
    return BY_NAME[max(bases, key=len)]
