"""What a launch spec says, as a tree: every node knows its offset, and nothing has been evaluated yet."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Constant:
    """A number, text, True, False or None."""

    at: int
    value: int | float | bool | str | None


@dataclass(frozen=True)
class Name:
    """A name, dotted or not: a size, another argument, or a dtype (`fp16`, `torch.float16`)."""

    at: int
    name: str


@dataclass(frozen=True)
class Sign:
    """`-x` or `+x`."""

    at: int
    sign: str
    operand: Node


@dataclass(frozen=True)
class Binary:
    """Two operands; `at` is the left one's place, `sign_at` the operator's."""

    at: int
    sign: str
    sign_at: int
    left: Node
    right: Node


@dataclass(frozen=True)
class Apply:
    """A function of numbers: `cdiv(n, BLOCK)`; or `desc(tensor, [block, …])`."""

    at: int
    function: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True)
class Sequence:
    """A list or tuple (`kind` says which)."""

    at: int
    kind: str
    items: tuple[Node, ...]


@dataclass(frozen=True)
class Recipe:
    """How a tensor's values are made: `randint(0, 512)`; arguments may be recipes themselves."""

    at: int
    name: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True)
class View:
    """What follows a tensor after a dot: `.T`, `.transpose(1, 2)`, `.cpu`, `.requires_grad`."""

    at: int
    name: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True)
class TensorNode:
    """`dtype[extent, …]:[stride, …]@offset~recipe`; `base` names another tensor in place of dtype and extents."""

    at: int
    dtype: str
    extents: tuple[Node, ...]
    strides: Sequence | None = None
    offset: Node | None = None
    recipe: Recipe | None = None
    views: tuple[View, ...] = ()
    base: str | None = None


Node = Constant | Name | Sign | Binary | Apply | Sequence | Recipe | TensorNode


@dataclass(frozen=True)
class Given:
    """`name=value`."""

    at: int
    name: str
    value: Node


@dataclass(frozen=True)
class Span:
    """`first..last step …`: `factor` says that the step multiplies."""

    at: int
    first: Node
    last: Node
    step: Node | None = None
    factor: bool = False


@dataclass(frozen=True)
class Choice:
    """`M in [1, 128]`, `M in 1..8`, or `M, N in [(1, 2), (3, 4)]`: each name with its offset."""

    at: int
    names: tuple[tuple[str, int], ...]
    options: tuple[Node, ...]
    span: Span | None = None


@dataclass(frozen=True)
class Spec:
    """All that a spec says, in order; `end` is the offset behind its last word."""

    items: tuple[Given | Choice, ...]
    end: int


def names_in(node: Node | Span | None) -> frozenset[str]:
    """Return every name that a value reads."""
    if isinstance(node, Name):
        return frozenset({node.name})
    parts: tuple[Node | Span | None, ...] = ()
    own: frozenset[str] = frozenset()
    if isinstance(node, Sign):
        parts = (node.operand,)
    elif isinstance(node, Binary):
        parts = (node.left, node.right)
    elif isinstance(node, Apply | Recipe):
        parts = node.arguments
    elif isinstance(node, Sequence):
        parts = node.items
    elif isinstance(node, Span):
        parts = (node.first, node.last, node.step)
    elif isinstance(node, TensorNode):
        own = frozenset({node.base or node.dtype})
        inside = tuple(argument for view in node.views for argument in view.arguments)
        parts = (*node.extents, node.strides, node.offset, node.recipe, *inside)
    return own.union(*(names_in(part) for part in parts))
