"""The look of HTML reports: one style sheet, light and dark, nothing loaded from anywhere."""

from __future__ import annotations

STYLE = """
:root { color-scheme: light dark; --page: #ffffff; --text: #1c2128; --muted: #5d6672; --edge: #d8dde3;
  --panel: #f5f7f9; --link: #0b5cad; --hot: #e8590c; --error: #b3261e; --warning: #8a5a00; --information: #0b5cad;
  --hint: #5d6672; --good: #1a7f37; }
@media (prefers-color-scheme: dark) { :root { --page: #14171b; --text: #e4e8ec; --muted: #9aa4b0; --edge: #343b44;
  --panel: #1c2127; --link: #79b8ff; --hot: #ff8a4c; --error: #ff8a80; --warning: #f2b544; --information: #79b8ff;
  --hint: #9aa4b0; --good: #57c773; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 76rem; padding: 1.5rem 1rem 4rem; background: var(--page); color: var(--text);
  font: 15px/1.5 system-ui, "Segoe UI", sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; }
h2 { font-size: 1.15rem; margin: 0; }
h3, h2.part { font-size: .95rem; margin: 1.25rem 0 .4rem; }
a { color: var(--link); }
code, pre, .source, .mono { font-family: ui-monospace, "SF Mono", Menlo, Consolas, monospace; font-size: .86em; }
.muted { color: var(--muted); }
section.kernel { border: 1px solid var(--edge); border-radius: 8px; padding: 1rem 1.1rem; margin: 1.25rem 0; }
table { border-collapse: collapse; margin: .3rem 0; }
.scroll { overflow-x: auto; }
th, td { text-align: left; padding: .2rem .8rem .2rem 0; border-bottom: 1px solid var(--edge); vertical-align: top; }
th { font-weight: 600; }
td.differs { font-weight: 600; }
ul.plain { list-style: none; padding: 0; margin: .3rem 0; }
.badge { display: inline-block; border: 1px solid currentColor; border-radius: 4px; padding: 0 .35rem; font-size: .82em;
  white-space: nowrap; }
.error { color: var(--error); } .warning { color: var(--warning); } .information { color: var(--information); }
.hint { color: var(--hint); } .good { color: var(--good); }
.source { background: var(--panel); border-radius: 6px; padding: .5rem 0; overflow-x: auto; line-height: 1.45; }
.row { display: grid; grid-template-columns: 6.5rem 3.2rem 1fr; white-space: pre; min-width: max-content; }
.row .heat { position: relative; color: var(--muted); text-align: right; padding-right: .5rem; }
.row .heat i { position: absolute; inset: .15em auto .15em .4rem; width: calc(var(--share) * 3.2rem);
  background: var(--hot); border-radius: 2px; }
.row .number { color: var(--muted); text-align: right; padding-right: .8rem; user-select: none; }
.row.hot .text { background: color-mix(in srgb, var(--hot) calc(var(--share) * 55%), transparent); }
.finding { white-space: normal; margin: .2rem .8rem .4rem 9.7rem; padding: .35rem .7rem;
  border-left: 3px solid currentColor; background: var(--page);
  font: 14px/1.45 system-ui, "Segoe UI", sans-serif; max-width: 60rem; }
.finding p { margin: 0; color: var(--text); }
.finding dl { display: grid; grid-template-columns: max-content max-content 1fr; gap: 0 .9rem; margin: .3rem 0 0;
  color: var(--text); font-size: .92em; }
.finding dt, .finding dd.from { color: var(--muted); }
.finding dd { margin: 0; }
summary { cursor: pointer; }
@media (max-width: 40rem) { .row { grid-template-columns: 4rem 2.6rem 1fr; } .row .heat i { display: none; }
  .finding { margin-left: .6rem; } .finding dl { grid-template-columns: max-content 1fr; }
  .finding dd.from { display: none; } }
@media print { section.kernel { break-inside: avoid; } }
"""
