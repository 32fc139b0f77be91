"""Inputs on which a wrong cross entropy shows."""

import torch
from cases import Case, Host, randint, randn, spread


def reference(logits, labels, ignore_index=-100, smoothing=0.0):
    ignored = labels == ignore_index
    x = logits.double()
    lse = x.logsumexp(1)
    chosen = x.gather(1, labels.long().masked_fill(ignored, 0)[:, None])[:, 0]
    loss = lse - chosen
    if smoothing > 0:
        loss = lse - (1 - smoothing) * chosen - smoothing * x.mean(1)
    return torch.where(ignored, 0.0, loss).float(), torch.where(ignored, 0.0, lse).float()


def arguments(rows=6, classes=90, dtype=torch.float32, scale=1.0, shift=0.0):
    labels = randint(0, classes, (rows,), seed=3)
    labels[rows // 2] = -100
    return (randn(rows, classes) * scale + shift).to(dtype), labels


def typical():
    """The file's first call, smaller."""
    return arguments(32, 512)


def along_classes(first, last):
    """Logits that rise or fall over three blocks."""
    logits, labels = arguments(3, 2500)
    return logits + torch.linspace(first, last, 2500), labels


def far_apart():
    """Rows one GiB of elements apart: the third does not start within the int32 range."""
    logits, labels = arguments(3, 40)
    labels[1] = 7
    return spread(logits, (1 << 30, 1)), labels


def hidden_classes():
    logits, labels = arguments(4, 1100)
    logits[:, 300:1090] = float("-inf")
    labels[:3] = torch.tensor([5, 299, 1095])
    return logits, labels


def specials():
    logits, labels = arguments(5, 50)
    logits[0, 7] = float("nan")
    logits[1, 9] = float("nan")
    labels[0] = 3
    labels[1] = -100
    logits[3, 3] = float("-inf")
    labels[3] = 4
    return logits, labels


def labelled(label, ignore_index):
    logits, labels = arguments()
    labels[:] = torch.tensor([label, 0, 1, label, 4, 89])
    return logits, labels, ignore_index


INPUTS = {
    "basic": arguments,
    "tail": lambda: arguments(classes=1100, shift=-50.0),
    "one_class": lambda: arguments(classes=1),
    "aligned": lambda: arguments(classes=64),
    "rising": lambda: along_classes(-60.0, 60.0),
    "falling": lambda: along_classes(60.0, -60.0),
    "very_negative": lambda: arguments(shift=-300.0),
    "very_positive": lambda: arguments(shift=300.25),
    "smoothed": lambda: (*arguments(classes=1100), -100, 0.2),
    "other_ignored": lambda: labelled(17, 17),
    "zero_ignored": lambda: labelled(0, 0),
    "gaps": lambda: (spread(arguments()[0], (113, 1)), arguments()[1]),
    "far_apart": far_apart,
    "hidden": hidden_classes,
    "specials": specials,
    "many_rows": lambda: arguments(rows=140, classes=3),
    "half": lambda: (*arguments(dtype=torch.float16), -100, 0.1),
    "bf16": lambda: arguments(dtype=torch.bfloat16),
    "int32_labels": lambda: (arguments()[0], arguments()[1].int()),
    "twice": lambda: Case([Host(arguments()), Host(arguments(shift=1.0, scale=2.0))]),
}
