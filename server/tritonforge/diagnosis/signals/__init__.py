"""What is wrong, as numbers: each module judges one cause from a `Case`; rules and `classify` only put it in words.

A judgement is None when the cause is absent *or* the evidence does not reach; it never guesses.
"""
