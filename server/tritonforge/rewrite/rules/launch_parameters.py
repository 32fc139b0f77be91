"""Giving a launch other tile sizes, warps and stages, with the host code that computes its grid.

A value is edited where it is set, as long as nothing but this kernel's launches and their grids (and host code that
must follow, such as the size of a buffer) depends on that place. Where another kernel depends on it too, the launch and
its grid get the number instead, and the place stays as it is. With a recorded launch, only the site that made it
changes, together with other sites of the kernel that share an edited place or a grid; without one, every site does.
Where the kernel is imported, the launch stands in another file than its definition, and that file is edited.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.signals.replays import accumulating
from tritonforge.domain.candidate import Candidate
from tritonforge.domain.kernel import Kernel, LaunchSite
from tritonforge.domain.launch import Config, Launch, integers_of
from tritonforge.domain.source import Edit
from tritonforge.rewrite.elsewhere import with_all_sites
from tritonforge.rewrite.protocol import Refusal
from tritonforge.rewrite.rules.autotune_entry import add_config
from tritonforge.rewrite.rules.comments import update_comments
from tritonforge.rewrite.rules.grid import Grid, read_grid
from tritonforge.rewrite.rules.grid_edits import GridEdits, TileChange, grid_edits, same_divisions
from tritonforge.rewrite.rules.keyword_arguments import insert_keywords
from tritonforge.rewrite.rules.launch_values import (
    OPTIONS,
    AlreadySo,
    LaunchNode,
    Refused,
    Setting,
    Settings,
    kernel_function,
    launches_in,
    node_of_site,
)
from tritonforge.rewrite.rules.outcome import check_outcome
from tritonforge.rewrite.rules.own_grid import own_grid
from tritonforge.rewrite.rules.sharing import Sharing
from tritonforge.rewrite.scopes import Scopes, Variable, read
from tritonforge.rewrite.text import Source

NAME = "launch-parameters"


def rewrite_launch(
    kernel: Kernel,
    texts: Mapping[str, str],
    wanted: Mapping[str, int],
    launch: Launch | None = None,
    treats: tuple[str, ...] = (),
    *,
    in_branches: bool = True,
) -> Candidate | Refusal:
    """Return the edits that make `kernel` run with `wanted` (constexpr or option → value), or why there are none.

    `launch` chooses the launch site (by file and line) and says what it runs with today. `treats` are the codes of the
    findings that the candidate is for. `in_branches` allows to edit what is set in the branch that the launch took, or
    in a `min(…)` that decided: not where what is made has to hold for other launches too.
    """
    try:
        edits = _edits(kernel, texts, wanted, launch, in_branches=in_branches)
    except Refused as refused:
        return Refusal(f"{refused}.".replace("..", "."), NAME, already=isinstance(refused, AlreadySo))
    except SyntaxError as error:
        return Refusal(f"{kernel.file} cannot be parsed: {error.msg} at line {error.lineno}.", NAME)
    order = {p.name: p.index for p in kernel.parameters}
    values = sorted(wanted.items(), key=lambda kv: (order.get(kv[0], len(order)), kv[0] != "num_warps", kv[0]))
    title = ", ".join(f"{name}={value}" for name, value in values)
    return Candidate(title, edits, ((NAME, tuple((n, str(v)) for n, v in values)),), "rule", treats)


def _edits(
    kernel: Kernel, texts: Mapping[str, str], wanted: Mapping[str, int], launch: Launch | None, *, in_branches: bool
) -> tuple[Edit, ...]:
    if kernel.file not in texts:
        raise Refused(f"the text of {kernel.file} is not at hand")
    kernel = with_all_sites(kernel, texts)
    for name, value in wanted.items():
        parameter = kernel.parameter(name)
        if not (parameter is not None and parameter.constexpr) and name not in OPTIONS:
            raise Refused(f"{kernel.name} has no constexpr parameter and no option {name}")
        if value < 1:
            raise Refused(f"{name} must be at least 1")
    plan = _Plan(kernel, texts, wanted, launch, recorded_values(launch) if launch and in_branches else {})
    edits = plan.solve()
    if not edits:
        raise AlreadySo("nothing to change: the launch has these values already")
    chosen = [plan.launches.index(plan.sites[i]) for i in plan.chosen]
    check_outcome(plan.source, kernel, texts, edits, chosen=chosen, wanted=wanted, running=plan.running, seen=plan.seen)
    return edits


def _host_file(kernel: Kernel, launch: Launch | None) -> str:
    """Return the file whose launches are edited: that of the recorded launch, else the kernel's own."""
    files = dict.fromkeys(site.file for site in kernel.launch_sites)
    if launch is not None and launch.call_site.file in files:
        return launch.call_site.file
    if kernel.file in files or not files:
        return kernel.file
    if len(files) > 1:
        raise Refused(f"{kernel.name} is launched in {' and '.join(files)}, and no launch says which is meant")
    return next(iter(files))


@dataclass
class _Draft:
    """Edits of one attempt: replaced nodes, inserted keywords per launch, and values at each site afterwards."""

    replacements: GridEdits = field(default_factory=GridEdits)
    keywords: dict[int, list[tuple[str, str]]] = field(default_factory=dict)
    comments: list[Edit] = field(default_factory=list)


class _Detach(Exception):
    """The place where a value is set must stay: give the launch the number instead."""

    def __init__(self, literal: ast.expr, reason: str) -> None:
        super().__init__(reason)
        self.literal = literal


class _Join(Exception):
    """Another site of the kernel shares what is edited and has to change as well."""

    def __init__(self, site: int) -> None:
        super().__init__(site)
        self.site = site


class _Plan:
    def __init__(
        self,
        kernel: Kernel,
        texts: Mapping[str, str],
        wanted: Mapping[str, int],
        launch: Launch | None,
        seen: Mapping[str, int],
    ) -> None:
        file = _host_file(kernel, launch)
        self.source, self.scopes = source, scopes = read(file, texts[file])
        self.definition = read(kernel.file, texts[kernel.file])
        self.kernel = kernel
        self.wanted = wanted
        self.settings = Settings(source, scopes, kernel, kernel_function(self.definition[1], kernel))
        self.launches = launches_in(scopes)
        sites = [s for s in kernel.launch_sites if s.file == file]
        found = [(s, node_of_site(source, self.launches, s)) for s in sites]
        if not found:
            raise Refused(f"no launch of {kernel.name} is written in {file}")
        for site, node in found:
            if node is None:
                raise Refused(_not_a_launch(source, scopes, kernel, site))
        self.sites: list[LaunchNode] = [node for _, node in found if node is not None]
        self.grids: list[Grid] = [read_grid(self.scopes, n.grid) if n.grid else Grid() for n in self.sites]
        self.chosen = self._chosen(launch)
        self.running = _running(launch.config) if launch is not None else {}
        names = tuple(dict.fromkeys((*wanted, *kernel.tiles, *OPTIONS)))
        self.seen = seen
        recorded = [seen if i in self.chosen else {} for i in range(len(self.sites))]
        self.values: list[dict[str, Setting]] = [
            {n: self.settings.of(s, n, values) for n in names} for s, values in zip(self.sites, recorded, strict=True)
        ]
        self.sharing = Sharing(self.scopes, self.launches, self.sites, self.grids)

    def _chosen(self, launch: Launch | None) -> tuple[int, ...]:
        every = tuple(range(len(self.sites)))
        if launch is None or len(every) == 1 or launch.call_site.file != self.source.file:
            return every
        line = launch.call_site.line
        at = tuple(i for i in every if self.sites[i].call.lineno <= line <= (self.sites[i].call.end_lineno or 0))
        hosts = [s.host for s in self.kernel.launch_sites if s.file == self.source.file]
        return at or tuple(i for i in every if hosts[i] and hosts[i] == launch.call_site.function) or every

    def solve(self) -> tuple[Edit, ...]:
        """Find edits, detaching shared places and letting other sites join until nothing is in the way."""
        if any(self.values[i][n].place == "autotune" for i in self.chosen for n in self.wanted):
            self._check_repeatable()
            return add_config(*self.definition, self.settings.function, self.wanted, self.running)
        detached: dict[ast.expr, str] = {}
        joined: list[int] = []
        while True:
            try:
                return self._as_edits(self._draft(detached, joined))
            except _Detach as turn:
                if turn.literal in detached:
                    raise Refused(str(turn)) from None
                detached[turn.literal] = str(turn)
            except _Join as turn:
                if turn.site in joined:
                    raise Refused("another launch of the kernel shares this grid with other values") from None
                joined.append(turn.site)

    def _check_repeatable(self) -> None:
        """Refuse a second config where runs add up: with one config alone, an autotuner runs a kernel only once."""
        tuner = self.kernel.autotune
        if tuner is None or (len(tuner.configs) != 1 and not tuner.varies):
            return
        two = dataclasses.replace(tuner, configs=tuner.configs * 2)
        seen = accumulating(Case(dataclasses.replace(self.kernel, autotune=two)))
        if seen or (self.kernel.reaches is None and not tuner.varies):
            what = f" and it adds to {seen[0].pointer}" if seen else ""
            raise Refused(f"already autotuned: with two configs the kernel would be run many times to choose{what}")

    def _draft(self, detached: Mapping[ast.expr, str], joined: list[int]) -> _Draft:
        draft = _Draft()
        tiles = set(self.wanted) - set(OPTIONS)
        wants = {i: dict(self.wanted) for i in self.chosen}
        for i in joined:
            wants.setdefault(i, {n: v for n, v in self.wanted.items() if n in tiles})
        changes = {i: self._changes(i, w, chosen=i in self.chosen) for i, w in wants.items()}
        places = self._places(changes, detached)
        for literal, value in places.items():
            draft.replacements.set(literal, str(value))
            for i, settings in enumerate(self.values):
                for name, setting in settings.items():
                    if setting.literal is literal and changes.setdefault(i, {}).get(name, value) != value:
                        raise _Detach(literal, f"the value of {name} is shared by launches that want different ones")
                    if setting.literal is literal:
                        changes[i][name] = value
        for i in sorted(changes):
            self._site(draft, i, changes, places, detached)
        return draft

    def _changes(self, site: int, wanted: Mapping[str, int], *, chosen: bool) -> dict[str, int]:
        """Return the values that really differ at the site."""
        out = {}
        for name, value in wanted.items():
            setting = self.values[site][name]
            running = self.running.get(name) if chosen else None
            current = setting.value
            if current is None or setting.place == "absent":
                current = running if running is not None else current
            elif running is not None and running != current:
                raise Refused(f"this launch ran with {name}={running}, while the source says {current}")
            if current == value:
                continue
            if setting.place == "fixed" and (name not in OPTIONS or setting.at_launch is None):
                raise Refused(setting.reason)
            if setting.place == "fixed" and setting.chain and setting.chain[-1].parameter is not None:
                raise Refused(setting.reason)
            for limit, word in ((setting.most, "most"), (setting.least, "least")):
                if limit is not None and (value > limit if word == "most" else value < limit):
                    assert isinstance(setting.literal, ast.expr)
                    raise Refused(f"{name} is at {word} {limit} with these sizes (line {setting.literal.lineno})")
            out[name] = value
        return out

    def _places(
        self, changes: Mapping[int, Mapping[str, int]], detached: Mapping[ast.expr, str]
    ) -> dict[ast.expr, int]:
        """Return the literals to edit away from the launches, each with its new value."""
        places: dict[ast.expr, int] = {}
        for i, change in changes.items():
            for name, value in change.items():
                setting = self.values[i][name]
                literal = setting.literal
                if literal is None or setting.place == "launch" or literal in detached:
                    continue
                if setting.unsure:
                    raise _Detach(literal, setting.unsure)
                if setting.place == "variable" and self._follows(i, name, change, detached):
                    raise _Detach(literal, f"a test or another value that changes decides {self._place_text(setting)}")
                if self.sharing.in_other_launch(literal):
                    raise _Detach(literal, f"{self._place_text(setting)} is set in another launch")
                elsewhere = self._default_elsewhere(name) if setting.place == "kernel-default" else ""
                if elsewhere:
                    raise _Detach(literal, f"{self._place_text(setting)} is used in {elsewhere} too")
                if places.setdefault(literal, value) != value:
                    raise _Detach(literal, f"{self._place_text(setting)} sets several values that become different")
                fed = [n for n, s in self.values[i].items() if s.literal is literal]
                if any(change.get(n) != value for n in fed):
                    raise _Detach(
                        literal, f"{self._place_text(setting)} also sets {', '.join(n for n in fed if n != name)}"
                    )
                apart = self._set_otherwise(i, setting)
                if apart is not None:
                    raise _Detach(literal, f"{self._place_text(setting)} is used by another launch at line {apart} too")
                reason = self.sharing.used_elsewhere(setting.chain)
                if reason:
                    raise _Detach(literal, f"{self._place_text(setting)} is used {reason} too")
        return places

    def _set_otherwise(self, site: int, setting: Setting) -> int | None:
        """Return the line of another launch of the kernel that reads a variable of `setting`, set nobody knows where.

        It was not recorded, so that what it gets of a variable that branches set is not known.
        """
        for launch, settings in zip(self.sites, self.values, strict=True):
            for other in settings.values():
                if launch is not self.sites[site] and other.literal is None and {*other.chain} & {*setting.chain}:
                    return launch.call.lineno
        return None

    def _default_elsewhere(self, name: str) -> str:
        """Return another file that launches the kernel with its default for `name`, if one does."""
        others = (s for s in self.kernel.launch_sites if s.file != self.source.file)
        relying = (s.file for s in others if dict(s.constexprs)[name].source == "default")
        return next(relying, "")

    def _place_text(self, setting: Setting) -> str:
        return setting.chain[-1].name if setting.chain else f"the default of {setting.name}"

    def _site(
        self,
        draft: _Draft,
        site: int,
        changes: Mapping[int, Mapping[str, int]],
        places: Mapping[ast.expr, int],
        detached: Mapping[ast.expr, str],
    ) -> None:
        node, settings, change = self.sites[site], self.values[site], changes[site]
        for name, value in change.items():
            setting = settings[name]
            if setting.literal in places:
                continue
            if setting.place == "launch":
                whole = self._follows(site, name, change, detached)
                edited = setting.at_launch if whole else setting.literal
                assert edited is not None
                draft.replacements.set(edited, str(value))
            elif setting.place in {"absent", "kernel-default"}:
                draft.keywords.setdefault(site, []).append((name, str(value)))
            else:
                self._refuse_half_detached(setting, detached)
                if setting.at_launch is None:
                    raise Refused(detached.get(setting.literal, setting.reason) if setting.literal else setting.reason)
                draft.replacements.set(setting.at_launch, str(value))
        self._hold(draft, site, change, detached)
        tile_change = self._tile_change(site, change, detached)
        if not any(tile_change.changed(t) for t in tile_change.old):
            return
        edits = grid_edits(self.settings, node, self.grids[site], tile_change)
        if any(self._is_of_another_kernel(replaced, site) for replaced in edits.replacements):
            assert node.grid is not None
            self._refuse_same_counts(node, edits, tile_change)
            own = own_grid(self.source, self.sharing, node, self.grids[site], edits.replacements)
            draft.replacements.set(node.grid, own)
            return
        for replaced, text in edits.replacements.items():
            self._check_shared(replaced, site, changes)
            draft.replacements.set(replaced, text)
        if node.host is not None and edits.divisions:
            for replaced, text in same_divisions(node.host, edits, tile_change).replacements.items():
                if self.sharing.other_grid(replaced, site) is None and not self.sharing.in_other_launch(replaced):
                    draft.replacements.set(replaced, text)
        draft.comments.extend(update_comments(self.source, node.host, self._tiles_in_order(tile_change)))

    def _hold(self, draft: _Draft, site: int, change: Mapping[str, int], detached: Mapping[ast.expr, str]) -> None:
        """Write out at the launch what it has already, where host code would now compute something else.

        `num_warps = 8 if BLOCK >= 2048 else 4` follows an edit of `BLOCK`, which was asked for with 8 warps.
        """
        settings = self.values[site]
        for name, value in self.wanted.items() if site in self.chosen else ():
            at = settings[name].at_launch
            if name not in change and at is not None and self._follows(site, name, change, detached):
                draft.replacements.set(at, str(value))

    def _follows(self, site: int, name: str, change: Mapping[str, int], detached: Mapping[ast.expr, str]) -> bool:
        """Tell whether what is edited decides, by a test or a computation, what the launch gets for `name`."""
        settings, own = self.values[site], self.values[site][name]
        others = (s for n in change if n != name and (s := settings[n]).literal not in detached)
        edited = {v for other in others for v in other.chain} - {*own.chain}
        tested = edited | {*own.chain} if name in change else edited
        tests = self.scopes.tests_around(own.chain)
        return own.at_launch is not None and (
            self.scopes.depends(own.at_launch, edited) or any(self.scopes.depends(test, tested) for test in tests)
        )

    def _refuse_half_detached(self, setting: Setting, detached: Mapping[ast.expr, str]) -> None:
        """Refuse to leave a variable behind on which other host code depends, or a parameter without an effect."""
        reason = detached.get(setting.literal) if setting.literal is not None else None
        if reason is None:
            return
        if setting.place in {"host-default", "caller"}:
            raise Refused(reason)
        follower = self.sharing.follower(setting.chain)
        if follower is not None and setting.name not in OPTIONS:
            raise Refused(f"{reason}, and line {follower.lineno} depends on it")

    def _tile_change(self, site: int, change: Mapping[str, int], detached: Mapping[ast.expr, str]) -> TileChange:
        old = {n: s.value for n, s in self.values[site].items() if n not in OPTIONS and s.value is not None}
        new = {n: change.get(n, v) for n, v in old.items()}
        by_variable: dict[Variable, tuple[str, ...]] = {}
        dropped: set[Variable] = set()
        for name, setting in self.values[site].items():
            if name in old:
                for variable in self._same_value(setting.chain):
                    by_variable[variable] = (*by_variable.get(variable, ()), name)
                    if setting.literal in detached:
                        dropped.add(variable)
        return TileChange(old, new, by_variable, frozenset(dropped))

    def _same_value(self, chain: tuple[Variable, ...]) -> Iterator[Variable]:
        """Yield the variables of `chain` and those that are set together with them alone (B of `A = B = 64`)."""
        places = {value for variable in chain for value in variable.values}
        for variable in self.scopes.alike(chain):
            if variable in chain or places.issuperset(variable.values):
                yield variable

    def _is_of_another_kernel(self, node: ast.expr, site: int) -> bool:
        other = self.sharing.other_grid(node, site)
        return other is not None and other not in self.sites

    def _refuse_same_counts(self, node: LaunchNode, edits: GridEdits, change: TileChange) -> None:
        """Refuse a grid of its own where something is sized as the shared one is: whose it is cannot be told."""
        same = same_divisions(node.host, edits, change).replacements if node.host is not None else {}
        rest = [n for n in same if self.sharing.other_grid(n, -1) is None and not self.sharing.in_other_launch(n)]
        if rest:
            raise Refused(
                f"the grid is shared with another kernel's launch, and line {rest[0].lineno} counts what it counts"
            )

    def _check_shared(self, node: ast.expr, site: int, changes: Mapping[int, Mapping[str, int]]) -> None:
        other = self.sharing.other_grid(node, site)
        if other is None:
            return
        index = self.sites.index(other)
        if any(self.values[index][n].value != self.values[site][n].value for n in changes[site] if n not in OPTIONS):
            raise Refused(f"the launch at line {other.call.lineno} shares this grid and has other values")
        if index not in changes:
            raise _Join(index)

    def _tiles_in_order(self, change: TileChange) -> list[tuple[int, int]]:
        placed = [t for _, tiles in sorted(self.kernel.program_axes) for t in tiles]
        order = dict.fromkeys([t for t in self.kernel.tiles if t in placed] + list(self.kernel.tiles))
        return [(change.old[t], change.new[t]) for t in order if t in change.old]

    def _as_edits(self, draft: _Draft) -> tuple[Edit, ...]:
        edits = [self.source.replace(node, text) for node, text in draft.replacements.replacements.items()]
        for site, keywords in draft.keywords.items():
            edits.extend(insert_keywords(self.source, self.sites[site].call, keywords))
        edits.extend(draft.comments)
        kept = (e for e in dict.fromkeys(edits) if self.source.text[e.start : e.end] != e.text)
        return tuple(sorted(kept))


def _not_a_launch(source: Source, scopes: Scopes, kernel: Kernel, site: LaunchSite) -> str:
    """Say why nothing with the form of a launch stands at `site`."""
    span = source.offsets_of(site.range)
    if any(isinstance(node, ast.Call) and source.span(node) == span for node in scopes.nodes):
        line = site.range.start.line
        return f"the launch of {kernel.name} at line {line} is not written as {kernel.simple_name}[grid](…)"
    return f"{source.file} has changed since it was analysed"


def recorded_values(launch: Launch) -> dict[str, int]:
    """Return the integers that a launch was seen to get: options, constexprs and other arguments."""
    return integers_of((*launch.problem.arguments, *launch.problem.constexprs)) | _running(launch.config)


def _running(config: Config) -> dict[str, int]:
    """Return the integer values that a launch ran with."""
    return integers_of((*config.constexprs, *config.options))
