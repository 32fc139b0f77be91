"""Why a search ends, as results say it (`stopped_because`)."""

ROOFLINE = "the kernel is at its roofline"
BELOW_NOISE = "the expected gain is below noise"
NOTHING_IMPROVED = "nothing improved"
ENOUGH_ROUNDS = "enough rounds"
NOTHING_TO_TRY = "there is nothing to try"
BUDGET_SPENT = "budget spent"
INTERRUPTED = "interrupted"

OVER = frozenset([ROOFLINE, BELOW_NOISE, NOTHING_IMPROVED, ENOUGH_ROUNDS, NOTHING_TO_TRY])
"""Of a search that had come to an end. After another reason it goes on when it is asked again."""
