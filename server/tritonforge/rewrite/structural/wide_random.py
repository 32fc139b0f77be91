"""Random numbers with half of the multiplications: `tl.rand`, bit for bit, written out with products of 64 bits.

Each of Philox's ten rounds needs both halves of two products of 32 bits. `tl.rand` asks for them one by one, and the
compiler keeps them apart, as a high multiplication, which an SM does at half speed, and a low one. A kernel that draws
one number per element is bound by them: for 8 elements, sm_90 has 236 multiplications with `tl.rand`, 176 with this.
The numbers are the same, so that whatever was trained or recorded with a seed stays so (Salmon et al. 2011, "Parallel
random numbers: as easy as 1, 2, 3", §4). `tl.rand4x`, which draws four numbers at once, is faster still and is not
offered: it draws others.

Preconditions: `tl.rand(seed, offset)` with ten rounds; a seed that is an argument or was loaded; offsets of 32 bits,
the only ones that the helper compiles for.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from tritonforge.domain.finding import BottleneckClass
from tritonforge.rewrite.rules.launch_values import Refused
from tritonforge.rewrite.structural.calls import name_of
from tritonforge.rewrite.structural.frame import Absent, Change
from tritonforge.rewrite.structural.helper import helper_edit
from tritonforge.rewrite.structural.kernel_text import KernelText, Replacement, nodes_of, replaced


class WideRandom:
    """`tl.rand` with products of 64 bits."""

    name = "wide-random"
    treats: frozenset[str] = frozenset()
    classes: frozenset[BottleneckClass] = frozenset({"fp32-compute"})

    def changes(self, text: KernelText) -> Iterator[Change]:
        """Yield the one way of making it."""
        calls = [n for n in nodes_of(text.function) if isinstance(n, cst.Call) and name_of(n, text.tl) == "rand"]
        if not calls:
            raise Absent("the kernel draws no random numbers")
        for call in calls:
            _check(text, call)
        helper = text.fresh("wide_rand")
        # What is called alone: one call may stand in another's arguments.
        made: list[tuple[cst.CSTNode, Replacement]] = [(call.func, cst.Name(helper)) for call in calls]
        edits = (*text.edits(replaced(text.function, made)), helper_edit(text, _helper(helper, text.tl)))
        yield Change("the same random numbers from products of 64 bits", edits)


def _check(text: KernelText, call: cst.Call) -> None:
    """Check that a call draws what the helper draws.

    Raises:
        Refused: it does not.
    """
    if len(call.args) != 2 or any(a.keyword is not None or a.star for a in call.args):
        raise Refused("tl.rand is called with more than a seed and offsets")
    seed = call.args[0].value
    known = text.kernel.parameter(seed.value) if isinstance(seed, cst.Name) else None
    if not isinstance(seed, cst.Name) or (known is not None and known.constexpr):
        raise Refused("the seed of tl.rand is no argument of the kernel")


def _helper(name: str, tl: str) -> list[str]:
    add = f"{tl}.add"
    return [
        f"def {name}(seed, offset):",
        f'    """The same as `{tl}.rand(seed, offset)`, with one multiplication for both halves of a product."""',
        f"    {tl}.static_assert(offset.dtype.primitive_bitwidth == 32)",
        # A number that is 1 comes as a constant: Triton compiles such a launch by itself.
        f"    key = {tl}.to_tensor(seed).to({tl}.uint64)",
        f"    k0 = (key & 0xFFFFFFFF).to({tl}.uint32)",
        f"    k1 = (key >> 32).to({tl}.uint32)",
        f"    c0 = offset.to({tl}.uint32, bitcast=True)",
        f"    c1 = {tl}.zeros_like(c0)",
        "    c2 = c1",
        "    c3 = c1",
        f"    for _ in {tl}.static_range(10):",
        f"        first = c0.to({tl}.uint64) * 0xD2511F53",
        f"        second = c2.to({tl}.uint64) * 0xCD9E8D57",
        f"        c0 = (second >> 32).to({tl}.uint32) ^ c1 ^ k0",
        f"        c2 = (first >> 32).to({tl}.uint32) ^ c3 ^ k1",
        f"        c1 = (second & 0xFFFFFFFF).to({tl}.uint32)",
        f"        c3 = (first & 0xFFFFFFFF).to({tl}.uint32)",
        f"        k0 = {add}(k0, 0x9E3779B9, sanitize_overflow=False)",
        f"        k1 = {add}(k1, 0xBB67AE85, sanitize_overflow=False)",
        f"    return {tl}.random.uint_to_uniform_float(c0)",
    ]
