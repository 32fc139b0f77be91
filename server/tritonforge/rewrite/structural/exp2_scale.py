"""`exp2` with log₂e folded into the scale of scores: one multiplication less for every exponential.

`exp(x·s − max(x·s))` is `exp2(x·t − max(x·t))` with `t = s·log₂e`, which is computed once. Everything between the
scale and the exponentials (masks, maxima, copies) works on values that are larger by log₂e; the logarithm of a sum of
exponentials is turned back by ln 2, and one that is loaded (a backward pass subtracts it) is multiplied by log₂e once.

Preconditions: the arguments of the exponentials are differences of values that come from one product with a scalar in
each loop, by maxima, `where` with infinity and copies alone, or that are loaded with fewer axes than the scores;
nothing else reads those values but `m + log(l)`. Without a product there is nothing to fold into, and nothing is
gained.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from tritonforge.domain.finding import BottleneckClass
from tritonforge.domain.launch import Tensor
from tritonforge.rewrite.rules.launch_values import Refused
from tritonforge.rewrite.structural.calls import grouped, name_of, value_of
from tritonforge.rewrite.structural.flow import flow_of
from tritonforge.rewrite.structural.frame import Absent, Change
from tritonforge.rewrite.structural.kernel_text import KernelText, Replacement, code, nodes_of, replaced

LOG2_E = "1.4426950408889634"
LN_2 = "0.6931471805599453"
_INFINITE = {f"{sign}float({q}{word}{q})" for sign in ("", "-") for q in "'\"" for word in ("inf", "-inf")}


class Exp2Scale:
    """Exponentials of base 2."""

    name = "exp2-scale"
    treats = frozenset({"TF204"})
    classes: frozenset[BottleneckClass] = frozenset({"special-function", "fp32-compute", "tensor-core", "latency"})

    def changes(self, text: KernelText) -> Iterator[Change]:
        """Yield the one way of making it."""
        scaled = _Scaled(text)
        scaled.follow()
        scaled.check_reads()
        yield Change("exp2 with the scale folded in", text.edits(scaled.rewritten()))


class _Scaled:
    """The variables that hold scores in the unit of the exponent, and how they get it."""

    def __init__(self, text: KernelText) -> None:
        self.text, self.tl = text, text.tl
        self.nodes = list(nodes_of(text.function))
        self.place = {id(node): i for i, node in enumerate(self.nodes)}
        self.exponentials = [n for n in self.nodes if isinstance(n, cst.Call) and name_of(n, self.tl) == "exp"]
        self.names: set[str] = set()
        self.allowed: set[int] = set()
        self.products: list[tuple[cst.CSTNode, cst.BaseExpression]] = []
        self.loads: list[cst.BaseExpression] = []
        self.raw: list[tuple[str, int, int]] = []
        """Variables that hold no score yet between two places: from a plain value to its product with the scale."""
        self.flow = flow_of(text.function, text.kernel, text.tl)

    def follow(self) -> None:
        """Find every variable behind the exponentials, and the products that they come from."""
        if not self.exponentials:
            raise Absent("the kernel has no exponential")
        products = [self.factor(n) for n in self.nodes if isinstance(n, cst.BinaryOperation)]
        if not any(self.scales(n) for n in self.nodes) and not any(products):
            raise Absent("no product with a scalar stands behind the exponentials")
        waiting: list[str] = []
        for call in self.exponentials:
            if len(call.args) != 1 or not self.linear(call.args[0].value, waiting):
                raise Refused(f"{code(call)} is no exponential of a difference of scores")
        while waiting:
            name = waiting.pop()
            if name not in self.names:
                self.names.add(name)
                self.definitions(name, waiting)
        if not self.products:
            raise Absent("no product with a scalar stands behind the exponentials")

    def linear(self, node: cst.BaseExpression, names: list[str]) -> bool:
        """Tell whether an expression is made of scores by sums and differences; collects its variables."""
        if isinstance(node, cst.Name):
            self.allowed.add(id(node))
            names.append(node.value)
            return True
        if isinstance(node, cst.Subscript):
            return self.linear(node.value, names)
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Subtract | cst.Add):
            return self.linear(node.left, names) and self.linear(node.right, names)
        return False

    def definitions(self, name: str, names: list[str]) -> None:
        if self.text.kernel.parameter(name) is not None:
            raise Refused(f"the exponent depends on the parameter {name} as it is")
        defined = [n for n in self.nodes if _sets(n, name)]
        scaling = [n for n in defined if self.scales(n)]
        self.raw += self.before_products(name, defined, scaling)
        for node in defined:
            if self.is_raw(name, node):
                continue
            if node in scaling:
                self.product(node)
            elif isinstance(node, cst.Assign) and isinstance(node.targets[0].target, cst.Name):
                if self.few_loaded(node.value):
                    self.loads.append(node.value)
                elif not self.derived(node.value, names):
                    raise Refused(f"{name} is more than a scaled score: {_short(node)}")
            elif isinstance(node, cst.AugAssign) and isinstance(node.operator, cst.SubtractAssign):
                self.allowed.add(id(node.target))
                if not self.linear(node.value, names):
                    raise Refused(f"{name} is more than a scaled score: {_short(node)}")
            else:
                raise Refused(f"{name} is more than a scaled score: {_short(node)}")

    def before_products(
        self, name: str, defined: list[cst.CSTNode], scaling: list[cst.CSTNode]
    ) -> Iterator[tuple[str, int, int]]:
        """Yield where a variable holds what is scaled later, and is no score yet.

        Raises:
            Refused: a score is scaled once more.
        """
        for i, product in enumerate(scaling):
            place = self.place[id(product)]
            if i == 0:
                yield name, -1, place
            elif isinstance(product, cst.AugAssign) or _reads(product, name):
                # Each loop scales its own: between the products stands what the variable is anew.
                last = self.place[id(scaling[i - 1])]
                anew = [self.place[id(n)] for n in defined if last < self.place[id(n)] < place and _is_new(n, name)]
                loops = [self.loop_of(n) for n in (scaling[i - 1], product)]
                if not anew or loops[0] is loops[1]:
                    raise Refused(f"{name} is scaled twice")
                yield name, anew[-1], place

    def loop_of(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """Return the innermost loop that a statement stands in."""
        around = [n for n in self.nodes if isinstance(n, cst.For | cst.While) and any(m is node for m in nodes_of(n))]
        return around[-1] if around else None

    def is_raw(self, name: str, node: cst.CSTNode) -> bool:
        """Tell whether a variable holds no score yet at a place."""
        place = self.place[id(node)]
        return any(n == name and first <= place < last for n, first, last in self.raw)

    def few_loaded(self, node: cst.BaseExpression) -> bool:
        """Tell whether a value is loaded, and has fewer axes than the scores: a multiplication more is no matter."""
        inner = node
        if isinstance(node, cst.Call) and code(node).endswith(f".to({self.tl}.float32)"):
            assert isinstance(node.func, cst.Attribute)
            inner = node.func.value
        shape = self.flow.of(inner).shape
        most = max((len(self.flow.of(call).shape or ()) for call in self.exponentials), default=0)
        return name_of(inner, self.tl) == "load" and shape is not None and len(shape) < most

    def derived(self, node: cst.BaseExpression, names: list[str]) -> bool:
        """Tell whether a value is made of scores alone, or of infinity, by what keeps their order."""
        words = code(node).replace(" ", "")
        if words in _INFINITE:
            return True
        called = name_of(node, self.tl)
        if called == "full":
            assert isinstance(node, cst.Call)
            value = value_of(node, "full", "value")
            return value is not None and code(value).replace(" ", "") in _INFINITE
        if isinstance(node, cst.BinaryOperation) and name_of(node.left, self.tl) == "zeros":
            return code(node.right).replace(" ", "") in _INFINITE
        if isinstance(node, cst.Call) and called in {"maximum", "max", "where"}:
            first = 1 if called == "where" else 0
            last = 1 if called == "max" else len(node.args)
            return all(self.derived(a.value, names) for a in node.args[first:last] if a.keyword is None)
        return self.linear(node, names)

    def scales(self, node: cst.CSTNode) -> bool:
        """Tell whether an assignment multiplies by a scalar: `x = y * scale`, `x *= scale`."""
        if isinstance(node, cst.AugAssign):
            return isinstance(node.operator, cst.MultiplyAssign) and self.scalar(node.value)
        return isinstance(node, cst.Assign) and self.factor(node.value) is not None

    def factor(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Multiply):
            return next((side for side in (node.right, node.left) if self.scalar(side)), None)
        return None

    def scalar(self, node: cst.BaseExpression) -> bool:
        if isinstance(node, cst.Float):
            return True
        known = self.text.kernel.parameter(node.value) if isinstance(node, cst.Name) else None
        return known is not None and known.role in {"scalar", "meaning"}

    def product(self, node: cst.CSTNode) -> None:
        value = node.value if isinstance(node, cst.Assign | cst.AugAssign) else None
        assert value is not None
        factor = value if isinstance(node, cst.AugAssign) else self.factor(value)
        assert factor is not None
        self.allowed |= {id(n) for n in nodes_of(node)}
        self.products.append((node, factor))

    def check_reads(self) -> None:
        """Check that nothing reads a score that is not turned back."""
        logs = [pair[0] for pair in self.logarithms()]
        inside = {id(n) for log in logs for n in nodes_of(log)}
        infinite = {
            id(n)
            for node in self.nodes
            if isinstance(node, cst.Comparison)
            and any(code(c.comparator).replace(" ", "") in _INFINITE for c in node.comparisons)
            for n in nodes_of(node)
        }
        for node in self.nodes:
            if not isinstance(node, cst.Name) or node.value not in self.names or id(node) in self.allowed:
                continue
            if id(node) in inside | infinite or self.is_raw(node.value, node) or self.is_target(node):
                continue
            raise Refused(f"{node.value}, which the exponential takes, is used for something else, too")

    def is_target(self, name: cst.Name) -> bool:
        return any(
            (isinstance(n, cst.Assign) and any(t.target is name for t in n.targets))
            or (isinstance(n, cst.AugAssign) and n.target is name)
            for n in self.nodes
        )

    def logarithms(self) -> list[tuple[cst.BinaryOperation, cst.BaseExpression, cst.Call]]:
        """Return the sums of a score and a logarithm, each with the score and the logarithm."""
        out = []
        for node in self.nodes:
            if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add):
                for score, log in ((node.left, node.right), (node.right, node.left)):
                    one = isinstance(score, cst.Name) and score.value in self.names
                    if one and isinstance(log, cst.Call) and name_of(log, self.tl) == "log":
                        out.append((node, score, log))
        return out

    def rewritten(self) -> cst.FunctionDef:
        """Return the kernel with all of it changed."""
        made: list[tuple[cst.CSTNode, Replacement]] = []
        made += [(call.func, _based(call.func, "exp2")) for call in self.exponentials]
        for whole, score, log in self.logarithms():
            both = f"({code(score)} + {code(log.with_changes(func=_based(log.func, 'log2')))}) * {LN_2}"
            made.append((whole, cst.parse_expression(f"({both})" if whole.lpar else both)))
        made += [(load, self.in_base_two(load)) for load in self.loads]
        statements: dict[str, str] = {}
        for _, factor in self.products:
            if isinstance(factor, cst.Name):
                wish = f"{factor.value}_log2"
                better = statements.get(factor.value) or self.text.fresh(wish, "scale_log2e")
                statements[factor.value] = better
                made.append((factor, cst.Name(better)))
            else:
                made.append((factor, cst.parse_expression(f"({code(grouped(factor))} * {LOG2_E})")))
        lines = [cst.parse_statement(f"{new} = {old} * {LOG2_E}") for old, new in statements.items()]
        first = next(
            s for s in self.text.function.body.body if any(n is p for p, _ in self.products for n in nodes_of(s))
        )
        function = replaced(self.text.function, made)
        place = list(self.text.function.body.body).index(first)
        body = list(function.body.body)
        body[place:place] = lines
        return function.with_changes(body=function.body.with_changes(body=body))

    def in_base_two(self, load: cst.BaseExpression) -> cst.BaseExpression:
        """Return a loaded exponent times log₂e, in single precision as its difference with a score is."""
        words = code(load)
        single = words.endswith(f".to({self.tl}.float32)") or self.is_single(load)
        return cst.parse_expression(f"{words}{'' if single else f'.to({self.tl}.float32)'} * {LOG2_E}")

    def is_single(self, load: cst.BaseExpression) -> bool:
        """Tell whether every recorded launch passes fp32 tensors for what an address is made of."""
        pointers = {n.value for n in nodes_of(load) if isinstance(n, cst.Name)}
        for launch in self.text.task.launches:
            given = [v for n, v in launch.problem.arguments if n in pointers and isinstance(v, Tensor)]
            if not given or any(t.dtype not in {"fp32", "float32"} for t in given):
                return False
        return True


def _reads(node: cst.CSTNode, name: str) -> bool:
    assert isinstance(node, cst.Assign | cst.AugAssign)
    return any(isinstance(n, cst.Name) and n.value == name for n in (node.value, *nodes_of(node.value)))


def _is_new(node: cst.CSTNode, name: str) -> bool:
    """Tell whether an assignment gives a variable a value that has nothing of the one before."""
    return isinstance(node, cst.Assign) and not _reads(node, name)


def _sets(node: cst.CSTNode, name: str) -> bool:
    if isinstance(node, cst.Assign):
        return any(isinstance(t.target, cst.Name) and t.target.value == name for t in node.targets)
    return isinstance(node, cst.AugAssign) and isinstance(node.target, cst.Name) and node.target.value == name


def _based(function: cst.BaseExpression, name: str) -> cst.BaseExpression:
    assert isinstance(function, cst.Attribute)
    return function.with_changes(attr=cst.Name(name))


def _short(node: cst.CSTNode) -> str:
    words = " ".join(code(node).split())
    return words if len(words) <= 60 else f"{words[:57]}…"
