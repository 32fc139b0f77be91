"""The few pieces of SVG that charts are drawn with: scales, ticks, texts.

Looks come from the page's style sheet by class, so that a chart follows the theme.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True)
class LogScale:
    """Maps values of (`low`, `high`), both above 0, onto pixels of (`start`, `end`) by their logarithm."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the pixel of a value; one outside lies on the edge."""
        inside = min(max(value, self.low), self.high)
        part = math.log(inside / self.low) / math.log(self.high / self.low)
        return self.start + part * (self.end - self.start)

    def ticks(self) -> Iterator[float]:
        """Yield the powers of ten inside, and 2 and 5 times them where there are few."""
        decades = math.log10(self.high / self.low)
        steps = (1.0,) if decades > 3 else (1.0, 2.0, 5.0)
        for exponent in range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1):
            for step in steps:
                value = step * 10.0**exponent
                if self.low * 0.999 <= value <= self.high * 1.001:
                    yield value


@dataclass(frozen=True)
class LinearScale:
    """Maps values of (0, `high`) onto pixels of (`start`, `end`)."""

    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the pixel of a value; one outside lies on the edge."""
        return self.start + min(max(value / self.high, 0.0), 1.0) * (self.end - self.start)

    def ticks(self) -> Iterator[float]:
        """Yield from three to six round values, 0 among them."""
        raw = self.high / 5
        base = 10.0 ** math.floor(math.log10(raw))
        step = next(base * n for n in (1, 2, 5, 10) if base * n >= raw * 0.999)
        for index in range(int(self.high / step * 1.001) + 1):
            yield index * step


def px(value: float) -> str:
    """Return a coordinate with at most one decimal."""
    return f"{value:.1f}".removesuffix(".0")


def text(x: float, y: float, content: str, *, anchor: str = "start", kind: str = "", turn: float | None = None) -> str:
    """Return a text; `turn` in degrees about its own place."""
    look = f' class="{kind}"' if kind else ""
    turned = f' transform="rotate({px(turn)} {px(x)} {px(y)})"' if turn is not None else ""
    return f'<text x="{px(x)}" y="{px(y)}" text-anchor="{anchor}"{look}{turned}>{escape(content)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    """Return a line."""
    return f'<line x1="{px(x1)}" y1="{px(y1)}" x2="{px(x2)}" y2="{px(y2)}" class="{kind}"/>'


def circle(x: float, y: float, radius: float, kind: str, title: str = "") -> str:
    """Return a circle that says `title` when pointed at."""
    return f'<circle cx="{px(x)}" cy="{px(y)}" r="{px(radius)}" class="{kind}">{_title(title)}</circle>'


def diamond(x: float, y: float, radius: float, kind: str, title: str = "") -> str:
    """Return a diamond that says `title` when pointed at."""
    points = f"M{px(x)} {px(y - radius)}L{px(x + radius)} {px(y)}L{px(x)} {px(y + radius)}L{px(x - radius)} {px(y)}Z"
    return f'<path d="{points}" class="{kind}">{_title(title)}</path>'


def cross(x: float, y: float, radius: float, kind: str, title: str = "") -> str:
    """Return a cross that says `title` when pointed at."""
    low, high = (px(x - radius), px(y - radius)), (px(x + radius), px(y + radius))
    path = f"M{low[0]} {low[1]}L{high[0]} {high[1]}M{low[0]} {high[1]}L{high[0]} {low[1]}"
    return f'<path d="{path}" class="{kind}">{_title(title)}</path>'


def bar(x: float, y: float, width: float, height: float, kind: str) -> str:
    """Return a horizontal bar."""
    return f'<rect x="{px(x)}" y="{px(y)}" width="{px(max(width, 1))}" height="{px(height)}" class="bar {kind}"/>'


def _title(title: str) -> str:
    return f"<title>{escape(title)}</title>" if title else ""


def chart(size: tuple[int, int], key: str, title: str, description: str, parts: Iterator[str]) -> Iterator[str]:
    """Yield a whole chart; `key` is unique on the page. A screen reader hears title and description only."""
    width, height = size
    yield (
        f'<svg class="chart" role="img" viewBox="0 0 {width} {height}" aria-labelledby="{key}-t {key}-d">'
        f'<title id="{key}-t">{escape(title)}</title><desc id="{key}-d">{escape(description)}</desc>'
    )
    yield from parts
    yield "</svg>"


def number(value: float) -> str:
    """Return a tick's label: `0.5`, `20`, `2k`."""
    if value >= 1e6:
        return f"{value / 1e6:g}M"
    return f"{value / 1e3:g}k" if value >= 1e4 else f"{value:g}"
