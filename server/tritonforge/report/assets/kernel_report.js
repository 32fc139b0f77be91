// The report's behaviour, in a file of its own as in an editor. Without it everything is readable, one below the other.
(() => {
  "use strict";
  const editor = typeof acquireVsCodeApi === "function" ? acquireVsCodeApi() : undefined;
  const body = document.body;
  const memory = { ...(editor?.getState() ?? {}), uri: body.dataset.uri, kernel: body.dataset.kernel, title: document.title };
  const remember = (changes) => editor?.setState(Object.assign(memory, changes));
  const say = (type, more) => editor?.postMessage({ type, ...more });
  const linesOf = (row) => (row.dataset.l ? row.dataset.l.split(" ") : []);
  const all = (root, selector) => [...root.querySelectorAll(selector)];

  /** A column of rows of which one takes the focus: the source, or a listing. */
  class Pane {
    constructor(element, onChoose) {
      this.element = element;
      this.onChoose = onChoose;
      this.marked = [];
      this.over = [];
      element.addEventListener("click", (event) => this.choose(this.rowOf(event), { click: true }));
      element.addEventListener("keydown", (event) => this.key(event));
      element.addEventListener("mouseover", (event) => this.hover(this.rowOf(event)));
      element.addEventListener("mouseleave", () => this.hover(undefined));
    }

    /** Looked up when first needed: a hidden listing may have ten thousand rows. */
    get rows() {
      return (this.found ??= all(this.element, ".r[role=option]"));
    }

    get byLine() {
      if (!this.index) {
        this.index = new Map();
        for (const row of this.rows) {
          for (const line of linesOf(row)) {
            (this.index.get(line) ?? this.index.set(line, []).get(line)).push(row);
          }
        }
      }
      return this.index;
    }

    rowOf(event) {
      const row = event.target instanceof Element ? event.target.closest(".r[role=option]") : null;
      return row && this.element.contains(row) ? row : undefined;
    }

    hover(row) {
      if (row !== this.hovered) {
        this.hovered = row;
        this.onHover?.(row ? linesOf(row) : []);
      }
    }

    choose(row, how) {
      if (row) {
        this.stop(row);
        row.focus({ preventScroll: true });
        this.onChoose(row, how);
      }
    }

    /** Makes the row the one that Tab comes to. */
    stop(row) {
      this.current?.removeAttribute("tabindex");
      this.current = row;
      row.setAttribute("tabindex", "0");
    }

    go(row, how) {
      if (row) {
        this.stop(row);
        row.focus({ preventScroll: true });
        row.scrollIntoView({ block: "nearest" });
        this.onChoose(row, how ?? {});
      }
    }

    key(event) {
      const at = this.rows.indexOf(this.current ?? this.rows[0]);
      const page = Math.max(1, Math.floor(this.element.clientHeight / ((this.current ?? this.rows[0]).offsetHeight || 20)) - 1);
      const last = this.rows.length - 1;
      const to = {
        ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: last, PageDown: at + page, PageUp: at - page,
      }[event.key];
      if (event.altKey || event.ctrlKey || event.metaKey) {
        return;
      }
      if (to !== undefined) {
        this.go(this.rows[Math.min(last, Math.max(0, to))]);
      } else if (event.key === "Enter" || event.key === " ") {
        this.onChoose(this.rows[at], { enter: true });
      } else if (event.key === "ArrowRight" || event.key === "ArrowLeft") {
        this.onCross?.(event.key === "ArrowRight");
      } else {
        return;
      }
      event.preventDefault();
    }

    matches(lines) {
      const found = new Set(lines.flatMap((line) => this.byLine.get(line) ?? []));
      return found.size > 1 ? this.rows.filter((row) => found.has(row)) : [...found];
    }

    mark(lines, { scroll }) {
      for (const row of this.marked) {
        row.classList.remove("mark");
        row.removeAttribute("aria-selected");
      }
      this.marked = this.matches(lines);
      for (const row of this.marked) {
        row.classList.add("mark");
        row.setAttribute("aria-selected", "true");
      }
      if (scroll && this.marked.length > 0) {
        // Of several lines the one that a row is charged to counts, which may stand behind those that inlined it.
        const [row] = this.byLine.get(lines[0]) ?? this.marked;
        this.stop(row);
        this.show(row);
      }
    }

    /** Scrolls this pane alone; the page stays where it is. */
    show(row) {
      const outer = this.element.getBoundingClientRect();
      const inner = row.getBoundingClientRect();
      if (inner.top < outer.top || inner.bottom > outer.bottom) {
        this.element.scrollTop += inner.top - outer.top - outer.height / 3;
      }
    }

    glow(lines) {
      for (const row of this.over) {
        row.classList.remove("over");
      }
      this.over = this.matches(lines);
      for (const row of this.over) {
        row.classList.add("over");
      }
    }
  }

  /** The source of a launch and, beside it, the compiler's listings, each showing what the other speaks of. */
  function workspace(root, identity) {
    const status = root.querySelector("[role=status]");
    const source = new Pane(root.querySelector("[data-pane=source]"), (row, how) => {
      chooseLines(linesOf(row), source, row);
      if (how.click || how.enter) {
        say("reveal", { kernel: Number(identity.split("-")[0]), line: Number(row.dataset.l), text: row.querySelector(".t").textContent, focus: Boolean(how.enter) });
      }
    });
    const tabs = all(root, "[data-tab]");
    const panes = tabs.map((tab) => new Pane(document.getElementById(tab.dataset.tab), (row) => chooseLines(linesOf(row), listing(), row)));
    const moves = all(root, "[data-move]");
    let active = 0;
    let chosen = [];
    const listing = () => panes[active];

    const tell = () => {
      const pane = listing();
      const count = pane ? pane.marked.length : 0;
      for (const move of moves) {
        move.disabled = count === 0;
      }
      if (chosen.length === 0) {
        status.textContent = pane ? status.dataset.hint : "";
        return;
      }
      const name = tabs[active]?.textContent;
      const rows = count === 1 ? "1 row" : `${count.toLocaleString("en")} rows`;
      status.textContent = `Line ${chosen[0]}` + (pane ? `: ${count ? rows : "nothing"} of ${name}` : "");
    };

    function chooseLines(lines, from, row) {
      chosen = lines;
      // From a listing the line that it is charged to; the lines that inlined it are marked, too.
      source.mark(lines, { scroll: from !== source });
      listing()?.mark(from === source ? lines : lines.slice(0, 1), { scroll: from === source });
      if (from !== source && lines.length === 0) {
        row.classList.add("mark");
        from.marked = [row];
      }
      tell();
      remember({ lines: { ...memory.lines, [identity]: lines } });
    }

    source.onHover = (lines) => listing()?.glow(lines);
    for (const pane of panes) {
      pane.onHover = (lines) => source.glow(lines);
      pane.onCross = (right) => right || source.go(source.current ?? source.rows[0]);
    }
    source.onCross = (right) => {
      const pane = listing();
      if (right && pane) {
        pane.go(pane.marked[0] ?? pane.current ?? pane.rows[0]);
      }
    };

    function open(index, focus) {
      active = index;
      tabs.forEach((tab, number) => {
        const on = number === index;
        tab.setAttribute("aria-selected", String(on));
        tab.setAttribute("tabindex", on ? "0" : "-1");
        panes[number].element.hidden = !on;
      });
      if (focus) {
        tabs[index].focus();
      }
      listing().mark(chosen, { scroll: true });
      tell();
      remember({ tab: tabs[index].textContent });
    }

    tabs.forEach((tab, index) => {
      tab.hidden = false;
      tab.addEventListener("click", () => open(index, false));
      tab.addEventListener("keydown", (event) => {
        const to = { ArrowRight: index + 1, ArrowLeft: index - 1, Home: 0, End: tabs.length - 1 }[event.key];
        if (to !== undefined) {
          event.preventDefault();
          open((to + tabs.length) % tabs.length, true);
        }
      });
    });
    for (const move of moves) {
      move.hidden = false;
      move.addEventListener("click", () => {
        const { marked, current } = listing();
        const at = marked.indexOf(current) + Number(move.dataset.move);
        const row = marked[(at + marked.length) % marked.length];
        listing().stop(row);
        listing().show(row);
      });
    }
    for (const pane of [source, ...panes]) {
      const first = pane.element.querySelector(".r[role=option]");
      if (first) {
        pane.stop(first);
      }
    }
    if (tabs.length > 0) {
      const last = tabs.findIndex((tab) => tab.textContent === memory.tab);
      open(last >= 0 ? last : 0, false);
    }
    tell();
    const before = memory.lines?.[identity];
    if (before?.length > 0) {
      chooseLines(before, source);
      source.mark(before, { scroll: true });
    }
    return (line) => {
      const row = source.byLine.get(String(line))?.[0];
      if (row) {
        row.scrollIntoView({ block: "center" });
        source.go(row);
      }
      return Boolean(row);
    };
  }

  for (const kernel of all(document, "section.kernel")) {
    const number = kernel.dataset.index;
    const launches = all(kernel, "[data-launch]");
    const picker = kernel.querySelector("select[data-launches]");
    const jumps = launches.map((launch, index) => workspace(launch, `${number}-${index}`));
    let shown = 0;
    const show = (index) => {
      shown = index;
      launches.forEach((launch, each) => (launch.hidden = each !== index));
    };
    if (picker) {
      picker.closest("[hidden]").hidden = false;
      const last = memory.launches?.[number] ?? 0;
      picker.selectedIndex = last < launches.length ? last : 0;
      picker.addEventListener("change", () => {
        show(picker.selectedIndex);
        remember({ launches: { ...memory.launches, [number]: picker.selectedIndex } });
      });
    }
    show(picker ? picker.selectedIndex : 0);
    kernel.addEventListener("click", (event) => {
      const link = event.target instanceof Element ? event.target.closest("a[data-line]") : null;
      if (link && jumps[shown]?.(link.dataset.line)) {
        event.preventDefault();
      }
    });
  }

  if (editor) {
    for (const actions of all(document, ".actions")) {
      actions.hidden = false;
      actions.addEventListener("click", (event) => {
        const button = event.target instanceof Element ? event.target.closest("button[data-do]") : null;
        if (button) {
          say(button.dataset.do, { kernel: Number(button.closest("section.kernel")?.dataset.index ?? 0) });
        }
      });
    }
    remember({});
    if (memory.scroll) {
      window.scrollTo(0, memory.scroll);
    }
    let timer;
    window.addEventListener("scroll", () => {
      clearTimeout(timer);
      timer = setTimeout(() => remember({ scroll: window.scrollY }), 200);
    });
  }
})();
