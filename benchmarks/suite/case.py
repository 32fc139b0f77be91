"""What a case of the suite is: a plain kernel, its arguments, its references, and the work that its operation needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

Sizes = Mapping[str, int]
Function = Callable[..., Any]
Factory = Callable[..., Callable[[], Any]]
"""Takes the arguments, prepares what is not to be timed, and returns what is."""

TOLERANCES = {
    torch.float16: 4e-3,
    torch.bfloat16: 1.6e-2,
    torch.float32: 1e-4,
    torch.float64: 1e-8,
}
"""How far an element may be from the oracle, relative to its own value plus the root mean square of its output: a few
roundings of the output's type."""


class Draw:
    """Draws arguments from one seed on one device."""

    def __init__(self, device: str, seed: int = 0) -> None:
        self.device = device
        self._generator = torch.Generator(device).manual_seed(seed)

    def normal(self, *shape: int, dtype: torch.dtype = torch.float32, scale: float = 1.0) -> torch.Tensor:
        """Return values of a normal distribution with deviation `scale`."""
        values = torch.randn(shape, generator=self._generator, device=self.device)
        return (values * scale).to(dtype)

    def uniform(
        self, *shape: int, low: float = 0.0, high: float = 1.0, dtype: torch.dtype = torch.float32
    ) -> torch.Tensor:
        """Return values between `low` and `high`."""
        values = torch.rand(shape, generator=self._generator, device=self.device)
        return (values * (high - low) + low).to(dtype)

    def integers(self, *shape: int, low: int = 0, high: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
        """Return integers from `low` to `high` - 1."""
        return torch.randint(low, high, shape, generator=self._generator, device=self.device, dtype=dtype)


@dataclass(frozen=True)
class Case:
    """One plain kernel file of the suite.

    `name`: of the file in `plain/`. `function`: its host function. `kernels`: in the order in which they are optimised.
    `full`: the sizes of the calls that the file makes when it is run; `small`: sizes at which it is checked in the
    interpreter, with ragged ends. `make`: sizes → arguments. `eager`: the operation in PyTorch, on the same arguments;
    its `label` names what it runs. `timed`: whether `eager` is a reference to be timed, `compiled`: whether
    `torch.compile` of it is. `others`: further references by name. `oracle`: what is right; default: `eager` on
    arguments in fp32. `moved` and `flops`: bytes that must move and operations that must be done, as formulas of the
    sizes. `peak`: the rate of the operations, as the ceilings name it. `tolerance`: in place of that of the output's
    type. `judge`: in place of a comparison with the oracle, (arguments, outputs) → the first thing that is wrong.
    `samples`: rounds of timing, fewer where one takes long.
    """

    name: str
    function: str
    kernels: tuple[str, ...]
    family: str
    full: tuple[Sizes, ...]
    small: tuple[Sizes, ...]
    make: Callable[[Sizes, Draw], tuple[Any, ...]]
    eager: Function
    moved: str
    flops: str
    label: str = "PyTorch eager"
    timed: bool = True
    compiled: bool = True
    others: Mapping[str, Factory] = field(default_factory=dict)
    oracle: Function | None = None
    peak: str = "fp32"
    tolerance: float | None = None
    judge: Callable[[Sequence[Any], Sequence[torch.Tensor]], str] | None = None
    samples: int = 60

    def right(self, arguments: Sequence[Any]) -> tuple[torch.Tensor, ...]:
        """Return what is right for these arguments, computed in fp32 or better."""
        function = self.oracle or self.eager
        with torch.no_grad():
            return outputs_of(function(*(widened(one) for one in arguments)))

    def work(self, sizes: Sizes) -> tuple[float, float]:
        """Return (bytes, operations) of one call."""
        return tuple(float(eval(text, {}, dict(sizes))) for text in (self.moved, self.flops))  # type: ignore[return-value]


def outputs_of(result: Any) -> tuple[torch.Tensor, ...]:
    """Return the tensors of a result."""
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def widened(value: Any) -> Any:
    """Return a floating tensor in fp32, anything else as it is."""
    if isinstance(value, torch.Tensor) and value.dtype.is_floating_point and value.dtype != torch.float64:
        return value.float()
    return value


def difference(got: torch.Tensor, want: torch.Tensor, tolerance: float | None = None) -> tuple[float, bool]:
    """Compare an output with the oracle's.

    Returns:
        The largest error relative to the element's own value plus the root mean square of the whole, and whether it is
        allowed. Integers must be equal: their error is the share that is not. Shapes must be equal; NaN is wrong, and
        so is an infinity where the oracle has none.
    """
    if got.shape != want.shape:
        return float("inf"), False
    if not got.dtype.is_floating_point:
        wrong = float((got.to(torch.int64) != want.to(torch.int64)).float().mean()) if got.numel() else 0.0
        return wrong, wrong == 0.0
    worst = 0.0
    wide = want.reshape(-1).double() if want.numel() < 1 << 24 else want.reshape(-1).float()
    typical = float(wide.square().mean().sqrt()) if want.numel() else 0.0
    for start in range(0, want.numel(), 1 << 26):  # in parts, so that large outputs need little memory beside
        a, b = got.reshape(-1)[start : start + (1 << 26)].float(), wide[start : start + (1 << 26)].float()
        error = (a - b).abs() / (b.abs() + typical + 1e-30)
        error = torch.where(a == b, torch.zeros_like(error), error)  # infinities that agree
        part = float(error.nan_to_num(nan=float("inf")).max())
        worst = max(worst, part)
    return worst, worst <= (tolerance or TOLERANCES.get(got.dtype, 1e-4))


def judge(
    case: Case, arguments: Sequence[Any], got: Sequence[torch.Tensor], want: Sequence[torch.Tensor] | None = None
) -> tuple[float, str]:
    """Compare what a version of a case returned with what is right (`want`, computed when it is not given).

    Returns:
        The worst error, and what is wrong or an empty text.
    """
    if case.judge is not None:
        return 0.0, case.judge(arguments, got)
    want = case.right(arguments) if want is None else want
    if len(got) != len(want):
        return float("inf"), f"{len(got)} outputs, {len(want)} are right"
    worst = 0.0
    for i, (one, other) in enumerate(zip(got, want, strict=True)):
        error, good = difference(one, other, case.tolerance)
        worst = max(worst, error)
        if not good:
            return worst, f"output {i} is off by {error:.3g}"
    return worst, ""


def plain_call(function: Function) -> Factory:
    """Return the factory that calls `function` on the arguments."""

    def prepare(*arguments: Any) -> Callable[[], Any]:
        return lambda: function(*arguments)

    return prepare
