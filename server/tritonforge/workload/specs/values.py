"""A value of a spec → a `Value`: tensors, numbers, texts, lists, dtypes, tensor descriptors."""

from __future__ import annotations

from tritonforge.domain.launch import Items, Scalar, Tensor, Value
from tritonforge.workload.specs.dtypes import dtype_symbol
from tritonforge.workload.specs.expressions import Scope, integer, number
from tritonforge.workload.specs.syntax import Apply, Constant, Name, Node, Sequence, TensorNode
from tritonforge.workload.specs.tensors import tensor_of


def value_of(node: Node, scope: Scope, name: str = "") -> Value:
    """Return what a node is; `name` is what the spec calls it.

    Raises:
        SpecError: with the position of the character that is wrong.
    """
    if isinstance(node, Constant):
        return Scalar(number(node, scope)) if type(node.value) in (int, float) else Scalar(node.value)
    if isinstance(node, TensorNode):
        return tensor_of(node, scope, name)
    if isinstance(node, Sequence):
        return Items(node.kind, tuple(value_of(item, scope) for item in node.items))
    if isinstance(node, Name) and node.name != "math.pi":
        if node.name in scope.values:
            return scope.lookup(node.name, node.at)
        symbol = dtype_symbol(node.name, in_kernel=scope.in_kernel)
        if symbol is None:
            raise scope.undefined(node.name, node.at)
        return symbol
    if isinstance(node, Apply) and node.function in ("desc", "TensorDescriptor"):
        return _descriptor(node, scope, name)
    return Scalar(number(node, scope))


def _descriptor(node: Apply, scope: Scope, name: str) -> Items:
    """Return `desc(tensor, [block, …])`: a tensor descriptor over the whole tensor."""
    place = scope.place
    if len(node.arguments) != 2:
        raise place.error(node.at, "desc takes a tensor and the shape of a block.", "As in desc(fp16[M, K], [64, 32]).")
    base = value_of(node.arguments[0], scope, name)
    if not isinstance(base, Tensor):
        raise place.error(node.arguments[0].at, "desc describes a tensor.", "As in desc(fp16[M, K], [64, 32]).")
    block = node.arguments[1]
    if not isinstance(block, Sequence) or len(block.items) != len(base.shape):
        raise place.error(block.at, f"a block has one extent for each of the tensor's {len(base.shape)} axes.")
    sizes = [Scalar(integer(item, scope, "a block's extent")) for item in block.items]
    return Items(
        "TensorDescriptor",
        (
            base,
            Items("list", tuple(Scalar(extent) for extent in base.shape)),
            Items("list", tuple(Scalar(stride) for stride in base.strides)),
            Items("list", tuple(sizes)),
        ),
    )
