"""Host code that tells a kernel whether rows of its tensors begin at multiples of 16 bytes.

A tensor descriptor takes a base and a distance of rows that are multiples of 16 bytes, and a contiguous last axis. The
launch says so with a constexpr, so that tensors of any other kind go on being read through pointers. Distances are
asked to be multiples of 16 elements, which holds for every format and is what Triton itself asks of sizes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from tritonforge.domain.launch import Tensor
from tritonforge.domain.source import Edit
from tritonforge.rewrite.rules.launch_values import Refused, called_name
from tritonforge.rewrite.structural.host import Host
from tritonforge.rewrite.structural.kernel_text import KernelText
from tritonforge.rewrite.structural.layout import LONGEST
from tritonforge.rewrite.structural.tiles import Product, Tile
from tritonforge.rewrite.structural.workspace import HostNames

_BYTES = 16
_COMMENT = "# Tensor descriptors read rows that begin at multiples of 16 bytes, and take some memory themselves."
_ALLOCATOR = 'lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda")'
"""Triton launches on the current device, too. It keeps no tensor of the caller alive."""
_PLAIN = (ast.Name, ast.Attribute, ast.Constant, ast.BinOp, ast.operator, ast.expr_context, ast.Subscript, ast.Call)
_ASKED = frozenset({"stride", "size", "numel", "max", "min", "next_power_of_2", "cdiv"})
"""What may be asked again: nothing happens then."""


class AlignedRows:
    """What has to hold of the tensors of all tiles, and the host code that tells.

    Args:
        text: the kernel.
        host: its launches.
        tiles: what is read through descriptors.

    Raises:
        Refused: it does not hold in the recorded launch, or the launch does not show what it passes.
    """

    def __init__(self, text: KernelText, host: Host, tiles: Sequence[Tile], extents: Iterable[Product]) -> None:
        self.text, self.host = text, host
        self.pointers = list(dict.fromkeys(tile.pointer for tile in tiles))
        self.ones = list(dict.fromkeys(name for tile in tiles for name in tile.ones))
        every = dict.fromkeys((*(product for tile in tiles for product in tile.multiples), *extents))
        self.multiples = [one for one in every if not self._follows(one, every) and not self._is_fixed(one)]
        for pointer in self.pointers:
            tensor = dict(text.launch.problem.arguments).get(pointer)
            if not isinstance(tensor, Tensor) or tensor.alignment % _BYTES:
                raise Refused(f"{pointer} does not begin at a multiple of {_BYTES} bytes in the recorded launch")

    def _follows(self, product: Product, every: Iterable[Product]) -> bool:
        """Tell whether another product that is asked for is a factor of this one."""
        return any(set(one) < set(product) for one in every)

    def _is_fixed(self, product: Product) -> bool:
        """Tell whether a product is a multiple whatever is passed.

        Raises:
            Refused: it is none in the recorded launch.
        """
        number, recorded = 1, 1
        for factor in product:
            value = self.text.size(factor)
            if value is None:
                raise Refused(f"what the launch passes for {factor} is not known")
            recorded *= value
            number *= value if factor.isdecimal() else 1
        if recorded % _BYTES:
            raise Refused(f"{' * '.join(product)} is no multiple of {_BYTES} elements in the recorded launch")
        return number % _BYTES == 0

    def edits(self, flag: str) -> tuple[Edit, ...]:
        """Return the edits that pass the constexpr `flag` to each launch, and set it in front of it."""
        source = self.text.source
        fresh = HostNames(n.id for n in self.host.scopes.nodes if isinstance(n, ast.Name))
        name = fresh("aligned")
        own = "set_allocator(" in source.text
        out: list[Edit] = []
        for site in range(len(self.host.nodes)):
            conditions = [f"{self._words(site, p)}.data_ptr() % {_BYTES} == 0" for p in self.pointers]
            products = [self._product(site, one) for one in self.multiples]
            conditions += [
                f"{one} % {_BYTES} == 0" for one in products if not (one.isdecimal() and int(one) % _BYTES == 0)
            ]
            conditions += [f"{self._words(site, one)} == 1" for one in self.ones]
            indent = self.host.indent_of(site)
            conditions = list(dict.fromkeys(conditions))
            lines = [_COMMENT, f"{name} = {' and '.join(conditions)}"]
            if len(indent) + len(lines[-1]) > LONGEST:
                first, *rest = conditions
                lines[1:] = [f"{name} = (", f"    {first}", *(f"    and {one}" for one in rest), ")"]
            if not own:
                lines.append(f"{self.text.triton}.set_allocator({_ALLOCATOR})")
            out.append(self.host.in_front(site, lines))
        return (*out, *self.host.keywords([[(flag, name)]] * len(self.host.nodes)))

    def _product(self, site: int, product: Product) -> str:
        words = [one if one.isdecimal() else self._words(site, one) for one in product]
        return " * ".join(words)

    def _words(self, site: int, parameter: str) -> str:
        """Return what a launch passes for a parameter, as it can be said in front of it.

        Raises:
            Refused: it is not written at the launch, or is computed by something that may do more.
        """
        words = self.host.passed(site, parameter)
        node = ast.parse(words, mode="eval").body if words else None
        calls = [n for n in ast.walk(node) if isinstance(n, ast.Call)] if node is not None else []
        asks = all(called_name(call) in _ASKED for call in calls)
        if node is None or not asks or not all(isinstance(n, _PLAIN) for n in ast.walk(node)):
            raise Refused(f"the launch does not show what it passes for {parameter}")
        if parameter in self.pointers and not isinstance(node, ast.Name | ast.Attribute):
            raise Refused(f"what is passed for {parameter} is no variable of the host function")
        return f"({words})" if isinstance(node, ast.BinOp) else words
