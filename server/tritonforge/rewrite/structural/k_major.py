"""A K-major copy of a dot's operand, made once in the host code: the kernel stays as it is.

Tensor cores take 16-bit operands in either order; 8-bit ones, and fp32 as tf32, only with the contraction contiguous.
An operand that lies the other way is turned element by element in every program that reads it. One copy moves each
element twice; the product reads it as often as there are tiles along the other axis.

Where the kernel takes it for granted how a matrix lies (`k[:, None] * N + n[None, :]`), it gets strides of it.

Preconditions: the operand's strides are arguments that the launch takes from the tensor itself (`b.stride(0)`), or
sizes and 1; the tensor is a variable of the host function, or an attribute, and two-dimensional; its elements have 1 or
4 bytes; the kernel's own stride along the contraction is not 1 in the recorded launch; the other operand has at least
2,048 rows, so that the copy is small beside the product. What the copy takes is not part of the kernel's time: the
title says how much is copied.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import libcst as cst

from tritonforge.domain.finding import BottleneckClass
from tritonforge.domain.launch import Tensor
from tritonforge.domain.source import Edit
from tritonforge.rewrite.rules.launch_values import Refused
from tritonforge.rewrite.structural.calls import name_of
from tritonforge.rewrite.structural.frame import Absent, Change
from tritonforge.rewrite.structural.host import Host
from tritonforge.rewrite.structural.kernel_text import KernelText, Names, code, nodes_of, replaced
from tritonforge.rewrite.structural.parameters import with_parameter
from tritonforge.rewrite.structural.standing import sum_of
from tritonforge.rewrite.structural.workspace import HostNames

LEAST_REUSE = 2048
_WIDTHS = {"float32": 4, "int8": 1, "uint8": 1}


@dataclass(frozen=True)
class _Operand:
    """An operand of a dot: the parameters of its pointer and of its strides along K and along the other axis.

    A stride that is not written, being 1, is empty. `index` is then the other axis's index, if it stands alone, and
    `factor` where the stride along K is written.
    """

    pointer: str
    along_k: str
    along_other: str
    index: cst.Subscript | None = dataclasses.field(default=None, compare=False)
    factor: cst.Name | None = dataclasses.field(default=None, compare=False)


class KMajor:
    """Operands with the contraction contiguous."""

    name = "k-major"
    treats = frozenset({"TF110", "TF202", "TF101"})
    classes: frozenset[BottleneckClass] = frozenset({"tensor-core", "shared-memory", "l2-bandwidth", "latency"})

    def changes(self, text: KernelText) -> Iterator[Change]:
        """Yield one change with all operands that lie the wrong way."""
        operands = [o for dot in _dots(text) for o in _operands(text, dot)]
        wrong = [o for o in dict.fromkeys(operands) if self._is_wrong(text, o)]
        if not wrong:
            raise Absent("no operand of a dot in 8 or 32 bits lies across the contraction")
        host = Host(text)
        edits: list[Edit] = []
        copied = 0
        values: dict[str, int] = {}
        copies = _copies(host, wrong)
        strides = _Strides(text, host, copies)
        for operand in map(strides.of, wrong):
            tensor = _tensor(text, operand.pointer)
            assert tensor is not None
            reuse = _rows_beside(text, operand)
            if reuse < LEAST_REUSE:
                raise Refused(f"{operand.pointer} is used for {reuse} rows, too few to pay for a copy of it")
            copied += tensor.elements * _bytes(tensor.dtype)
            values |= {operand.along_k: 1, operand.along_other: _contraction(tensor)}
            for site in range(len(host.nodes)):
                edits += _copy(text, host, site, operand, copies[site, operand.pointer])
        edits += strides.edits()
        names = " and ".join(o.pointer for o in wrong)
        size = f"{copied / 1e6:.0f} MB" if copied >= 1_000_000 else f"{copied / 1e3:.0f} kB"
        title = f"{names} copied K-major before the launch ({size} each call)"
        yield Change(title, tuple(dict.fromkeys(edits)), values=values)

    def _is_wrong(self, text: KernelText, operand: _Operand) -> bool:
        tensor = _tensor(text, operand.pointer)
        stride, other = _stride(text, operand.along_k), _stride(text, operand.along_other)
        return (
            tensor is not None
            and len(tensor.shape) == 2
            and _bytes(tensor.dtype) in {1, 4}
            and stride is not None
            and stride > 1
            and other == 1
            and (operand.along_other != "" or operand.index is not None)
            and text.task.arch.startswith("sm_")
        )


def _bytes(dtype: str) -> int:
    return 1 if dtype.startswith("float8") else _WIDTHS.get(dtype, 2)


def _tensor(text: KernelText, parameter: str) -> Tensor | None:
    found = dict(text.launch.problem.arguments).get(parameter)
    return found if isinstance(found, Tensor) else None


def _rows_beside(text: KernelText, operand: _Operand) -> int:
    """Return how many rows of other operands meet the operand."""
    own = _tensor(text, operand.pointer)
    assert own is not None
    others = [o for dot in _dots(text) for o in _operands(text, dot) if o.pointer != operand.pointer]
    tensors = [t for o in others for t in [_tensor(text, o.pointer)] if t is not None]
    return max((t.elements // _contraction(own) for t in tensors), default=0)


def _contraction(tensor: Tensor) -> int:
    """Return how many elements are multiplied along the axis of an operand that is not contiguous."""
    return max(1, *(d for d, s in zip(tensor.shape, tensor.strides, strict=True) if s != 1), 1)


def _dots(text: KernelText) -> list[cst.Call]:
    return [n for n in nodes_of(text.function) if isinstance(n, cst.Call) and name_of(n, text.tl) == "dot"]


def _operands(text: KernelText, dot: cst.Call) -> Iterator[_Operand]:
    """Yield the operands of a dot whose addresses show which stride belongs to the contraction."""
    for place, arg in enumerate(dot.args[:2]):
        address = _address(text, arg.value)
        if address is None:
            continue
        along: dict[str, cst.Name] = {}
        strides = {p.name for p in text.kernel.parameters if not p.constexpr and p.role in {"stride", "scalar"}}
        for node in (address, *nodes_of(address)):
            if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Multiply):
                for index, stride in ((node.left, node.right), (node.right, node.left)):
                    words = re.sub(r"\s", "", code(index))
                    if isinstance(stride, cst.Name) and stride.value in strides:
                        if "[:,None]" in words and "[None,:]" not in words:
                            along["rows"] = stride
                        elif "[None,:]" in words and "[:,None]" not in words:
                            along["columns"] = stride
        names = {n.value for n in (address, *nodes_of(address)) if isinstance(n, cst.Name)}
        pointers = [p.name for p in text.kernel.parameters if p.role == "pointer" and p.name in names]
        plain = _plain_indices(text, address)
        if len({*along, *plain}) == 2 and len(pointers) == 1:
            k, other = ("columns", "rows") if place == 0 else ("rows", "columns")
            names_of = [along[axis].value if axis in along else "" for axis in (k, other)]
            yield _Operand(pointers[0], names_of[0], names_of[1], plain.get(other), along.get(k))


def _stride(text: KernelText, name: str) -> int | None:
    return text.value(name) if name else 1


def _plain_indices(text: KernelText, address: cst.BaseExpression) -> dict[str, cst.Subscript | None]:
    """Return the axes that an address has an index along that no stride multiplies, each with the index.

    The index is None where something is added to it, which a stride would have to multiply as well.
    """
    found: dict[str, cst.Subscript | None] = {}
    rest = []
    for one in sum_of(address):
        words = re.sub(r"\s", "", code(one))
        if isinstance(one, cst.Subscript) and words.endswith(("[:,None]", "[None,:]")):
            found["rows" if words.endswith("[:,None]") else "columns"] = one
        elif not isinstance(one, cst.BinaryOperation):
            rest.append(words)
    lone = len(rest) == 1 and text.kernel.parameter(rest[0]) is not None
    return found if lone else dict.fromkeys(found)


class _Strides:
    """Strides for operands whose kernel takes it for granted how a matrix lies, and what passes them.

    Args:
        text: the kernel.
        host: its launches.
        copies: what each launch calls the copy of an operand's tensor.
    """

    def __init__(self, text: KernelText, host: Host, copies: Mapping[tuple[int, str], str]) -> None:
        self.text, self.host, self.copies = text, host, copies
        self.names = Names(text)
        self.made: list[tuple[cst.CSTNode, cst.CSTNode]] = []
        self.new: list[str] = []
        self.given: list[list[tuple[str, str]]] = [[] for _ in host.nodes]

    def of(self, operand: _Operand) -> _Operand:
        """Return an operand with two strides that launches take from its tensor."""
        tensor = _tensor(self.text, operand.pointer)
        assert tensor is not None
        across = next(axis for axis, stride in enumerate(tensor.strides) if stride != 1)
        known = self.text.kernel.parameter(operand.along_k)
        stem = f"stride_{operand.pointer.removesuffix('_ptr')}"
        if operand.index is not None and known is not None and known.role == "stride":
            stem = operand.along_k.removesuffix("k") if operand.along_k.endswith("k") else stem
        elif operand.index is not None and operand.factor is not None and self._is_size(operand):
            name = self._new(f"{stem}k", operand, across)
            self.made.append((operand.factor, operand.factor.with_changes(value=name)))
            operand = dataclasses.replace(operand, along_k=name)
        if operand.index is not None and not operand.along_other:
            name = self._new(f"{stem}n", operand, 1 - across)
            self.made.append((operand.index, cst.BinaryOperation(operand.index, cst.Multiply(), cst.Name(name))))
            operand = dataclasses.replace(operand, along_other=name)
        return operand

    def _is_size(self, operand: _Operand) -> bool:
        """Tell whether a launch passes a size for the distance of rows, and not a stride."""
        passed = [self.host.passed(site, operand.along_k) for site in range(len(self.host.nodes))]
        return not all(".stride(" in words for words in passed)

    def _new(self, wish: str, operand: _Operand, axis: int) -> str:
        name = self.names(wish)
        self.new.append(name)
        for site, pairs in enumerate(self.given):
            pairs.append((name, f"{self.copies[site, operand.pointer]}.stride({axis})"))
        return name

    def edits(self) -> tuple[Edit, ...]:
        """Return the edits of the kernel and of its launches.

        Raises:
            Refused: the kernel cannot get further parameters.
        """
        if not self.new:
            return ()
        function = replaced(self.text.function, self.made)
        for place, name in enumerate(self.new):
            function = with_parameter(function, name, least=self.host.most_positional + place)
        return (*self.text.edits(function), *self.host.keywords(self.given))


def _address(text: KernelText, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return the address that an operand is loaded from, followed through variables."""
    for _ in range(4):
        if isinstance(node, cst.Call) and name_of(node, text.tl) == "load":
            node = node.args[0].value
        elif isinstance(node, cst.Name):
            values = [
                n.value
                for n in nodes_of(text.function)
                if isinstance(n, cst.Assign) and code(n.targets[0].target) == node.value
            ]
            if len(values) != 1:
                return None
            node = values[0]
        else:
            break
    return node if isinstance(node, cst.BinaryOperation) else None


def _copy(text: KernelText, host: Host, site: int, operand: _Operand, name: str) -> Iterator[Edit]:
    """Yield the edits that put the copy, called `name`, in front of a launch and pass it.

    Raises:
        Refused: the tensor or its strides come to the launch in a way that a copy would not follow.
    """
    tensor, node = host.argument(site, operand.pointer), host.nodes[site]
    if not isinstance(tensor, ast.Name | ast.Attribute) or node.host is None:
        raise Refused(f"what is passed for {operand.pointer} is no variable of the host function")
    words = text.source.segment(tensor)
    if f"{words}.t().contiguous().t()" in text.source.segment(node.host):
        raise Absent(f"{words} is copied K-major already")
    if name != words:
        yield text.source.replace(tensor, name)
    for parameter in (operand.along_k, operand.along_other):
        if text.kernel.parameter(parameter) is None:
            continue  # a new one
        given = host.argument(site, parameter)
        said = re.fullmatch(rf"{re.escape(words)}(\.stride\(-?[012]\))", text.source.segment(given) if given else "")
        if given is None or said is None:
            raise Refused(f"the launch does not take {parameter} from {words} itself")
        if name != words:
            yield text.source.replace(given, f"{name}{said[1]}")
    yield host.in_front(
        site,
        [
            "# The contraction contiguous, as the tensor cores read it.",
            f"{name} = {words}.t().contiguous().t()",
        ],
    )


def _copies(host: Host, operands: Sequence[_Operand]) -> dict[tuple[int, str], str]:
    """Return what each launch calls the copy of an operand: the variable itself, if nothing else reads it from then on.

    What is returned, or kept for a backward pass, is still laid out as it was.
    """
    found = {}
    for site, node in enumerate(host.nodes):
        around = list(ast.walk(node.host)) if node.host is not None else []
        names = HostNames(
            [n.id for n in around if isinstance(n, ast.Name)] + [n.arg for n in around if isinstance(n, ast.arg)]
        )
        for operand in operands:
            words = host.passed(site, operand.pointer)
            leaf = words.rpartition(".")[2]
            name = names(leaf) if leaf != words and leaf.isidentifier() else words
            found[site, operand.pointer] = names(f"{words}_k_major") if _is_read_on(host, site, name) else name
    return found


def _is_read_on(host: Host, site: int, name: str) -> bool:
    """Tell whether a variable of the host function is read by anything but launches of the kernel from a launch on."""
    node = host.nodes[site]
    launches = {id(n) for launch in host.nodes for n in ast.walk(launch.call)}
    around = list(ast.walk(node.host)) if node.host is not None else []
    loops = [n for n in around if isinstance(n, ast.For | ast.While) and any(one is node.call for one in ast.walk(n))]
    first = min([n.lineno for n in loops], default=(node.call.end_lineno or 0) + 1)
    return any(
        n.id == name and isinstance(n.ctx, ast.Load) and n.lineno >= first and id(n) not in launches
        for n in around
        if isinstance(n, ast.Name)
    )
