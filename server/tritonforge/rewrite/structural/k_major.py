"""A K-major copy of a dot's operand, made once in the host code: the kernel stays as it is.

Tensor cores take 16-bit operands in either order; 8-bit ones, and fp32 as tf32, only with the contraction contiguous.
An operand that lies the other way is turned element by element in every program that reads it. One copy moves each
element twice; the product reads it as often as there are tiles along the other axis.

Where the kernel takes it for granted that elements of a row lie side by side, it gets a stride for them.

Preconditions: the operand's strides are arguments that the launch takes from the tensor itself (`b.stride(0)`); the
tensor is a variable of the host function and two-dimensional; its elements have 1 or 4 bytes; the kernel's own stride
along the contraction is not 1 in the recorded launch; the other operand has at least 2,048 rows, so that the copy is
small beside the product. What the copy takes is not part of the kernel's time: the title says how much is copied.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from tritonforge.domain.finding import BottleneckClass
from tritonforge.domain.launch import Tensor
from tritonforge.domain.source import Edit
from tritonforge.rewrite.rules.launch_values import LaunchNode, Refused
from tritonforge.rewrite.structural.calls import name_of
from tritonforge.rewrite.structural.frame import Absent, Change
from tritonforge.rewrite.structural.host import Host
from tritonforge.rewrite.structural.kernel_text import KernelText, Names, code, nodes_of, replaced
from tritonforge.rewrite.structural.parameters import with_parameter
from tritonforge.rewrite.structural.standing import sum_of

LEAST_REUSE = 2048
_STRIDE = r"{}\.stride\(-?[012]\)"
_WIDTHS = {"float32": 4, "int8": 1, "uint8": 1}


@dataclass(frozen=True)
class _Operand:
    """An operand of a dot: the parameters of its pointer and of its strides along K and along the other axis.

    A stride that is not written, being 1, is empty. `index` is then the other axis's index, if it stands alone.
    """

    pointer: str
    along_k: str
    along_other: str
    index: cst.Subscript | None = dataclasses.field(default=None, compare=False)


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
        wrong, written, passed = _with_strides(text, host, wrong)
        edits += [*written, *passed]
        for operand in wrong:
            tensor = _tensor(text, operand.pointer)
            assert tensor is not None
            reuse = _rows_beside(text, operand)
            if reuse < LEAST_REUSE:
                raise Refused(f"{operand.pointer} is used for {reuse} rows, too few to pay for a copy of it")
            copied += tensor.elements * _bytes(tensor.dtype)
            values |= {operand.along_k: 1, operand.along_other: _contraction(tensor)}
            for site, node in enumerate(host.nodes):
                edits.append(_copy(text, host, site, node, operand))
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
        along: dict[str, str] = {}
        strides = {p.name for p in text.kernel.parameters if not p.constexpr and p.role in {"stride", "scalar"}}
        for node in (address, *nodes_of(address)):
            if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Multiply):
                for index, stride in ((node.left, node.right), (node.right, node.left)):
                    words = re.sub(r"\s", "", code(index))
                    if isinstance(stride, cst.Name) and stride.value in strides:
                        if "[:,None]" in words and "[None,:]" not in words:
                            along["rows"] = stride.value
                        elif "[None,:]" in words and "[:,None]" not in words:
                            along["columns"] = stride.value
        names = {n.value for n in (address, *nodes_of(address)) if isinstance(n, cst.Name)}
        pointers = [p.name for p in text.kernel.parameters if p.role == "pointer" and p.name in names]
        plain = _plain_indices(text, address)
        if len({*along, *plain}) == 2 and len(pointers) == 1:
            k, other = ("columns", "rows") if place == 0 else ("rows", "columns")
            yield _Operand(pointers[0], along.get(k, ""), along.get(other, ""), plain.get(other))


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


def _with_strides(
    text: KernelText, host: Host, operands: Sequence[_Operand]
) -> tuple[list[_Operand], tuple[Edit, ...], tuple[Edit, ...]]:
    """Return operands that all have two strides, and the edits of the kernel and of its launches for new ones.

    Raises:
        Refused: the kernel cannot get one.
    """
    names = Names(text)
    out: list[_Operand] = []
    made: list[tuple[cst.CSTNode, cst.CSTNode]] = []
    given: list[list[tuple[str, str]]] = [[] for _ in host.nodes]
    new: list[str] = []
    for operand in operands:
        if operand.along_other or operand.index is None:
            out.append(operand)
            continue
        stem = operand.along_k.removesuffix("k")
        name = names(f"{stem}n" if stem != operand.along_k else f"{operand.along_k}_other")
        new.append(name)
        made.append((operand.index, cst.BinaryOperation(operand.index, cst.Multiply(), cst.Name(name))))
        out.append(dataclasses.replace(operand, along_other=name, index=None))
        for site in range(len(host.nodes)):
            strides = re.fullmatch(r"(.+)\.stride\((\d|-\d)\)", host.passed(site, operand.along_k))
            if strides is None:
                raise Refused(f"the launch does not take {operand.along_k} from a tensor")
            given[site].append((name, f"{strides[1]}.stride({1 - int(strides[2]) % 2})"))
    if not new:
        return out, (), ()
    function = replaced(text.function, made)
    for place, name in enumerate(new):
        function = with_parameter(function, name, least=host.most_positional + place)
    return out, text.edits(function), host.keywords(given)


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


def _copy(text: KernelText, host: Host, site: int, node: LaunchNode, operand: _Operand) -> Edit:
    """Return the edit that puts the copy in front of a launch.

    Raises:
        Refused: the tensor or its strides come to the launch in a way that a copy would not follow.
    """
    tensor = host.argument(site, operand.pointer)
    if not isinstance(tensor, ast.Name) or node.host is None:
        raise Refused(f"what is passed for {operand.pointer} is no variable of the host function")
    if f"{tensor.id}.t().contiguous().t()" in text.source.segment(node.host):
        raise Absent(f"{tensor.id} is copied K-major already")
    for parameter in (operand.along_k, operand.along_other):
        given = host.argument(site, parameter)
        new = text.kernel.parameter(parameter) is None
        if new or (given is not None and re.fullmatch(_STRIDE.format(tensor.id), text.source.segment(given))):
            continue
        raise Refused(f"the launch does not take {parameter} from {tensor.id} itself")
    return host.in_front(
        site,
        [
            "# The contraction contiguous, as the tensor cores read it.",
            f"{tensor.id} = {tensor.id}.t().contiguous().t()",
        ],
    )
