"""What a parameter's name suggests where nothing else says it: a dtype, a recipe, an extent, a value."""

from __future__ import annotations

import re
from dataclasses import dataclass

_LABELS = re.compile(r"(^|_)(targets?|labels?|input_ids|token_ids|ids?|tokens?)$", re.IGNORECASE)
_OFFSETS = re.compile(r"cu_seq|cu_?lens|(^|_)(offs?|offsets|indptr|splits|bounds)$", re.IGNORECASE)
_INDEX = re.compile(
    r"(^|_)(idx|idxs|index|indexes|indices|ind|table|tables|positions?|pos|slots?|perm|experts?|rows|cols|topk_ids|"
    r"slot_mapping|row_ids|col_ids|starts?)$",
    re.IGNORECASE,
)
_LENGTHS = re.compile(r"(^|_)(lens|lengths|seqlens|seq_lens|counts|context_lens)$", re.IGNORECASE)
_MASK = re.compile(r"(^|_)(mask|masks|keep|valid)$|mask", re.IGNORECASE)
_STATISTIC = re.compile(
    r"^(rstd|mean|var|lse|logsumexp|m|l|delta|sigma|inv_?rms|invr|max|sums?)$|(^|_)(rstd|lse|mean|var|logsumexp|amax)$",
    re.IGNORECASE,
)
_WEIGHT = re.compile(
    r"^(w|b|weight|bias|gamma|beta|g|scale|shift|alpha)$|(^|_)(weight|bias|gamma|beta|w)$|^w_", re.IGNORECASE
)

_USUALLY_TENSORS = re.compile(
    r"^(x|y|z|a|b|c|q|k|v|x\d|inp|inputs?|src|out|output|hidden_states|hidden|logits|query|key|value|mat\d?|tensor|u|d[oxyzqkv])$",
    re.IGNORECASE,
)

SIZES: tuple[tuple[str, int], ...] = (
    (r"^(b|bs|bsz|batch|batch_?size|n_?batch|z|num_seqs)$", 4),
    (r"^(h|hq|heads|num_?heads|n_?heads?|n_q_head|n_head|nheads|num_q_heads|qh)$", 16),
    (r"^(hkv|kvh|n_kv_head|num_kv_heads|nheads_kv|groups?|num_groups|g|n_groups)$", 8),
    (r"^(t|s|l|seq|seq_?len|seqlen|n_?ctx|ctx|qlen|klen|tq|tk|max_?seq_?len|length|num_tokens)$", 1024),
    (r"^(d|dk|dv|k_dim|v_dim|head_?dim|headdim|hd|d_?head|dim_qk|dim_v|block_dmodel)$", 64),
    (r"^(v|vocab|vocab_?size|n_vocab)$", 32768),
    (r"^(e|experts|num_experts|n_experts)$", 8),
    (r"^(c|channels|num_channels|in_channels|out_channels|cin|cout)$", 64),
    (r"^(top_?k|k_top)$", 2),
    (r"^(img|height|width|hin|win)$", 64),
)
"""Extents that certain names usually have, by pattern; anything else gets one by its place."""


@dataclass(frozen=True)
class Guess:
    """A dtype, and a recipe that may name `{rows}` (the first extent of the main tensor) and `{last}` (its last)."""

    dtype: str
    recipe: str = ""
    rank: int | None = None
    shape: str = ""
    """`first`: like the main tensor; `rows`: its leading extents; `last`: its last extent."""
    per_row: bool = False
    """One element for each row of the main tensor, whatever its rank."""


def tensor_guess(name: str) -> Guess:
    """Return what a tensor of that name usually is."""
    if _OFFSETS.search(name):
        return Guess("i32", "~offsets({rows})", 1, "offsets")
    if _LABELS.search(name):
        return Guess("i64", "~randint(0, {last})", 1, "rows", per_row=True)
    if _INDEX.search(name):
        return Guess("i32", "~randint(0, {rows})", 1, "rows")
    if _LENGTHS.search(name):
        return Guess("i32", "~randint(1, {rows})", 1, "rows")
    if _MASK.search(name):
        return Guess("bool", "~mask(0.9)", None, "first")
    if _STATISTIC.search(name):
        return Guess("fp32", "", 1, "rows", per_row=True)
    if _WEIGHT.search(name):
        return Guess("", "", 1, "last")
    return Guess("", "", None, "first")


def is_usually_tensor(name: str) -> bool:
    """Tell whether an argument of that name is a tensor where nothing says otherwise."""
    return bool(_USUALLY_TENSORS.match(name))


def size_guess(name: str) -> int | None:
    """Return the extent that something called so usually has, None when the name says nothing."""
    return next((size for pattern, size in SIZES if re.search(pattern, name, re.IGNORECASE)), None)


_SCALARS: tuple[tuple[str, str], ...] = (
    (r"eps|epsilon", "1e-6"),
    (r"^(is|use|has|with|return|needs?|do|store|save|apply|enable|output)_|causal|training|in_?place|^log_target$|^bias$",
     "False"),
    (r"^(p|dropout|dropout_p|p_dropout|rate)$", "0.1"),
    (r"scale|scaling|temperature|multiplier|factor|alpha|beta|momentum|softcap|gamma", "1.0"),
    (r"smoothing|offset|shift|lse_square|decay|lr|weight_decay", "0.0"),
    (r"ignore_index", "-100"),
    (r"^(dim|axis)$", "-1"),
    (r"seed", "0"),
    (r"num_warps", "4"),
    (r"num_stages", "2"),
    (r"block.*k$|blk.*k$", "32"),
    (r"^(block|block_?size|blocksize|chunk_?size|bt|tile_?size)$", "64"),
    (r"block|blk|tile", "64"),
    (r"window|kernel_size|ksize", "7"),
    (r"^dtype$|_dtype$", "fp32"),
    (r"device", "'cuda'"),
    (r"reduction", "'mean'"),
    (r"^(n_?iters?|iters?|steps?|tmax|num_iters|num_steps|rounds)$", "4"),
    (r"(^|_)(mode|kind|type|activation|act)$", "None"),
)  # fmt: skip


def scalar_guess(name: str, annotation: str | None) -> str:
    """Return the text of a value for a parameter that is no tensor."""
    kind = (annotation or "").removeprefix("Optional[").removesuffix("]").partition(" |")[0].strip("'\"")
    if kind == "bool":
        return "False"
    for pattern, text in _SCALARS:
        if re.search(pattern, name, re.IGNORECASE):
            if kind == "int" and not re.fullmatch(r"-?\d+", text):
                break
            return text
    size = size_guess(name)
    by_kind = {"bool": "False", "int": str(size or 4), "float": "1.0", "str": "''", "torch.dtype": "fp32"}
    return by_kind.get(kind, str(size) if size else "1")
