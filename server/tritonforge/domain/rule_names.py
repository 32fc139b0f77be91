"""The rules of the catalogue by code, and what is said to somebody who writes one that there is not."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

RULE_NAMES: Mapping[str, str] = {
    "TF101": "uncoalesced-access",
    "TF102": "narrow-access",
    "TF103": "redundant-global-traffic",
    "TF104": "poor-l2-reuse",
    "TF105": "shared-memory-bank-conflicts",
    "TF106": "local-memory-traffic",
    "TF107": "atomic-contention",
    "TF108": "gather-scatter",
    "TF109": "missing-cache-hint",
    "TF110": "layout-conversion",
    "TF201": "no-tensor-core",
    "TF202": "weak-tensor-core-path",
    "TF203": "tile-too-small",
    "TF204": "slow-math",
    "TF205": "loop-invariant-work",
    "TF206": "not-pipelined",
    "TF207": "scalar-loop",
    "TF208": "insufficient-ilp",
    "TF301": "low-occupancy",
    "TF302": "grid-too-small",
    "TF303": "tail-effect",
    "TF304": "block-too-small",
    "TF305": "block-too-large",
    "TF306": "load-imbalance",
    "TF401": "launch-bound",
    "TF402": "recompilation",
    "TF403": "autotune-thrash",
    "TF404": "no-tuning",
    "TF405": "slow-compilation",
    "TF501": "offset-overflow",
    "TF502": "masked-load-without-other",
    "TF503": "missing-mask",
    "TF504": "autotune-not-idempotent",
    "TF505": "precision-surprise",
    "TF506": "data-race",
    "TF507": "non-deterministic",
    "TF508": "out-of-bounds-access",
    "TF601": "removed-or-deprecated-api",
    "TF602": "version-hazard",
    "TF603": "does-not-compile",
    "TF900": "at-roofline",
}
"""Every rule's name by its code. The rules themselves are `diagnosis`'; settings and comments only name them."""

DOES_NOT_COMPILE = "TF603"
"""There is no profile of a launch with this finding."""

_CLOSE = 0.65


def wrong_code(written: str, *, names: bool = False) -> str | None:
    """Return what is wrong with a code or a prefix of codes (`TF203`, `TF2`) as a sentence; None where nothing is.

    `names`: a rule may go by its name (`tile-too-small`), too.
    """
    code = written.upper()
    if code.startswith("TF") and any(known.startswith(code) for known in RULE_NAMES):
        return None
    by_name = next((known for known, name in RULE_NAMES.items() if name == written.lower()), None)
    if by_name is not None:
        return None if names else f"'{written}' is a rule's name: write its code, {by_name}."
    listed = [*RULE_NAMES, *(RULE_NAMES.values() if names else ())]
    close = difflib.get_close_matches(code, listed, n=1, cutoff=_CLOSE)
    close = close or difflib.get_close_matches(written.lower(), RULE_NAMES.values(), n=1, cutoff=_CLOSE)
    if close and close[0] not in listed:
        close = [known for known, name in RULE_NAMES.items() if name == close[0]]
    what = "no rule's code" if code.startswith("TF") or not names else "no rule"
    mend = f"Did you mean {close[0]}?" if close else "docs/rules/README.md lists them."
    return f"'{written}' is {what}. {mend}"
