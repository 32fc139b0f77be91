"""Tokens of a launch spec → its tree, by recursive descent: an error always knows the token it stopped at."""

from __future__ import annotations

from tritonforge.workload.specs.errors import Place
from tritonforge.workload.specs.syntax import (
    Apply,
    Binary,
    Choice,
    Constant,
    Given,
    Name,
    Node,
    Recipe,
    Sequence,
    Sign,
    Span,
    Spec,
    TensorNode,
    View,
)
from tritonforge.workload.specs.tokens import Token, tokenize

EXAMPLE = "x=fp16[4096, 4096]"
_LEVELS: tuple[tuple[str, ...], ...] = (("<<", ">>"), ("+", "-"), ("*", "/", "//", "%"))
_WORDS = {"True": True, "False": False, "None": None}
_DEPTH = 32
_OPERATORS = 128
"""Operators of one argument or size: what is deeper or longer is a mistake, and would exhaust the stack."""


def parse(text: str, place: Place) -> Spec:
    """Read a whole spec.

    Raises:
        SpecError: at the token that does not belong there.
    """
    reader = _Reader(tokenize(text, place), place)
    items: list[Given | Choice] = []
    while reader.here.kind != "end":
        items.append(reader.item())
    return Spec(tuple(items), reader.here.start)


def parse_value(text: str, place: Place) -> Node:
    """Read one value that is all of `text`.

    Raises:
        SpecError: as `parse` does.
    """
    reader = _Reader(tokenize(text, place), place)
    if reader.here.kind == "end":
        raise place.error(len(text), "the value is empty.", f"A tensor is written {EXAMPLE[2:]}.")
    value = reader.value()
    reader.expect_end()
    return value


def parse_options(text: str, place: Place, name: str, at: int = 0) -> Choice:
    """Read what follows `in`: a list of values, or a range; for the size called `name`, whose own place is `at`.

    Raises:
        SpecError: as `parse` does.
    """
    reader = _Reader(tokenize(text, place), place)
    choice = reader.choice(((name, at),), at)
    reader.expect_end()
    return choice


class _Reader:
    def __init__(self, tokens: tuple[Token, ...], place: Place) -> None:
        self.tokens, self.place, self.at, self.depth = tokens, place, 0, 0
        self.operators = 0
        self.open: list[Token] = []

    @property
    def here(self) -> Token:
        return self.tokens[self.at]

    def next_is(self, *texts: str) -> bool:
        return self.here.kind in ("sign", "name") and self.here.text in texts

    def take(self) -> Token:
        token = self.here
        self.at = min(self.at + 1, len(self.tokens) - 1)
        return token

    def accept(self, text: str) -> Token | None:
        return self.take() if self.next_is(text) else None

    def expect_end(self) -> None:
        if self.here.kind != "end":
            raise self.place.error(self.here.start, f"expected the end of the value, found {self.here.shown}.")

    def item(self) -> Given | Choice:
        self.operators = 0
        first = self.here
        second = self.tokens[min(self.at + 1, len(self.tokens) - 1)]
        if first.kind != "name" or second.text not in ("=", "in", ","):
            if first.kind == "sign" and first.text in ")]}":
                raise self.place.error(first.start, f"this {first.text!r} closes nothing.")
            mend = f"A spec is written {EXAMPLE} n=4096, sizes M in [1, 128]."
            raise self.place.error(first.start, f"expected name=value, found {first.shown}.", mend)
        self.take()
        if self.accept("="):
            if self.here.kind == "end" or (self.here.kind == "name" and self._begins_item()):
                raise self.place.error(second.end, f"{first.text} has no value.", f"As in {EXAMPLE}.")
            return Given(first.start, first.text, self.value())
        names = [(first.text, first.start)]
        while self.accept(","):
            if self.here.kind != "name":
                raise self.place.error(
                    self.here.start, f"expected a name, found {self.here.shown}.", "As in M, N in [(1, 2), (3, 4)]."
                )
            name = self.take()
            names.append((name.text, name.start))
        if not self.accept("in"):
            raise self.place.error(
                self.here.start,
                f"expected 'in' after {', '.join(name for name, _ in names)}, found {self.here.shown}.",
                "Arguments are separated by blanks; sizes are chosen as in M, N in [(1, 2), (3, 4)].",
            )
        return self.choice(tuple(names), first.start)

    def _begins_item(self) -> bool:
        return self.tokens[min(self.at + 1, len(self.tokens) - 1)].text in ("=", "in")

    def choice(self, names: tuple[tuple[str, int], ...], at: int) -> Choice:
        start = self.here
        if start.kind == "end":
            raise self.place.error(start.start, f"{names[0][0]} has no values.", "As in M in [1, 128, 4096].")
        if self.next_is("[", "("):
            before = self.at
            sequence = self.sequence()
            if isinstance(sequence, Sequence) and not self.next_is(".."):
                if not sequence.items:
                    raise self.place.error(start.start, f"{names[0][0]} has no values.", "As in M in [1, 128, 4096].")
                return Choice(at, names, sequence.items)
            self.at = before
        first = self.value()
        if not self.next_is(".."):
            raise self.place.error(
                start.start,
                f"expected a list or a range of values for {names[0][0]}, found {start.shown}.",
                "As in M in [1, 128, 4096], M in 128..4096 step 128, or M in 128..4096 step *2.",
            )
        self.take()
        last = self.value()
        step, factor = None, False
        if self.accept("step"):
            factor = self.accept("*") is not None
            step = self.value()
        return Choice(at, names, (), Span(start.start, first, last, step, factor))

    def value(self) -> Node:
        self.depth += 1
        if self.depth > _DEPTH:
            raise self.place.error(self.here.start, "this is nested too deeply.")
        node = self.binary(0)
        self.depth -= 1
        return node

    def binary(self, level: int) -> Node:
        if level == len(_LEVELS):
            return self.unary()
        left = self.binary(level + 1)
        while self.here.kind == "sign" and self.here.text in _LEVELS[level]:
            sign = self.take()
            self.operators += 1
            if self.operators > _OPERATORS:
                raise self.place.error(sign.start, "this expression is too long.")
            left = Binary(left.at, sign.text, sign.start, left, self.binary(level + 1))
        return left

    def unary(self) -> Node:
        if self.next_is("-", "+"):
            sign = self.take()
            self.depth += 1
            if self.depth > _DEPTH:
                raise self.place.error(sign.start, "this is nested too deeply.")
            operand = self.unary()
            self.depth -= 1
            return Sign(sign.start, sign.text, operand)
        base = self.primary()
        if self.next_is("**"):
            sign = self.take()
            self.depth += 1
            if self.depth > _DEPTH:
                raise self.place.error(sign.start, "this is nested too deeply.")
            power = self.unary()
            self.depth -= 1
            return Binary(base.at, sign.text, sign.start, base, power)
        return base

    def primary(self) -> Node:
        token = self.here
        if token.kind == "end":
            if self.open:
                self.never_closed()
            raise self.place.error(token.start, "expected a value, found the end.", f"As in {EXAMPLE}.")
        if self.next_is("(", "["):
            return self.sequence()
        self.take()
        if token.kind == "int":
            digits = token.text
            return Constant(token.start, int(digits, 0) if digits[:2].lower() in ("0x", "0b") else int(digits))
        if token.kind == "float":
            return Constant(token.start, float(token.text))
        if token.kind == "text":
            return Constant(token.start, token.text[1:-1])
        if token.kind == "name":
            return self.named(token)
        if token.text in ")]}":
            if self.open:
                opened = self.open[-1]
                raise self.place.error(token.start, f"expected a value, found {token.shown}.", _inside(opened))
            raise self.place.error(token.start, f"this {token.text!r} closes nothing.")
        raise self.place.error(token.start, f"expected a value, found {token.shown}.", f"As in {EXAMPLE}.")

    def named(self, first: Token) -> Node:
        if first.text in _WORDS:
            return Constant(first.start, _WORDS[first.text])
        name, views = first.text, []
        while self.next_is("."):
            self.take()
            part = self.here
            if part.kind != "name":
                raise self.place.error(part.start, f"expected a name after the dot, found {part.shown}.")
            if name in ("torch", "tl", "triton", "triton.language", "math"):
                name = f"{name}.{self.take().text}"
            else:
                views.append(self.view())
        if not views and self.next_is("["):
            return self.tensor(first, name)
        if not views and self.next_is("("):
            return Apply(first.start, name, self.arguments())
        if views:
            return TensorNode(first.start, "", (), views=tuple(views), base=name, recipe=self.recipe())
        return Name(first.start, name)

    def tensor(self, first: Token, dtype: str) -> Node:
        extents = self.items("[", "]")
        views: list[View] = []
        strides: Sequence | None = None
        offset: Node | None = None
        while self.next_is(":", "@", "."):
            sign = self.take()
            if sign.text == ":" and strides is None and not views:
                if not self.next_is("["):
                    raise self.place.error(
                        self.here.start, f"expected strides, found {self.here.shown}.", "As in fp16[M, K]:[K + 8, 1]."
                    )
                strides = Sequence(self.here.start, "list", self.items("[", "]"))
            elif sign.text == "@" and offset is None and not views:
                offset = self.unary()
            elif sign.text == "." and self.here.kind == "name":
                views.append(self.view())
            else:
                raise self.place.error(
                    sign.start,
                    f"{sign.text!r} cannot stand here.",
                    "A tensor is written dtype[extents]:[strides]@offset.view~recipe, all but the extents optional.",
                )
        recipe = self.recipe()
        return TensorNode(first.start, dtype, extents, strides, offset, recipe, tuple(views))

    def view(self) -> View:
        name = self.take()
        return View(name.start, name.text, self.arguments() if self.next_is("(") else ())

    def recipe(self) -> Recipe | None:
        if not self.accept("~"):
            return None
        name = self.here
        if name.kind != "name":
            raise self.place.error(
                name.start, f"expected a recipe after ~, found {name.shown}.", "As in int32[8]~randint(0, 512)."
            )
        self.take()
        return Recipe(name.start, name.text, self.arguments() if self.next_is("(") else ())

    def arguments(self) -> tuple[Node, ...]:
        return self.items("(", ")")

    def sequence(self) -> Node:
        start = self.here
        if start.text == "[":
            return Sequence(start.start, "list", self.items("[", "]"))
        trailing: list[Token] = []
        items = self.items("(", ")", trailing)
        if len(items) == 1 and not trailing:
            return items[0]
        return Sequence(start.start, "tuple", items)

    def items(self, opening: str, closing: str, commas: list[Token] | None = None) -> tuple[Node, ...]:
        self.open.append(self.take())
        found: list[Node] = []
        while not self.next_is(closing):
            found.append(self.value())
            comma = self.accept(",")
            if comma is not None:
                if commas is not None:
                    commas.append(comma)
            elif not self.next_is(closing):
                if self.here.kind == "end" or self.next_is("="):
                    self.never_closed()
                raise self.place.error(
                    self.here.start,
                    f"expected ',' or {closing!r}, found {self.here.shown}.",
                    f"The {opening!r} at column {self.place.position(self.open[-1].start).column} is still open.",
                )
        self.take()
        self.open.pop()
        return tuple(found)

    def never_closed(self) -> None:
        raise self.place.error(self.open[-1].start, "this bracket is never closed.")


def _inside(opened: Token) -> str:
    return f"The bracket {opened.text!r} before it is open."
