import { expect, test } from "vitest";

import { planBatch } from "../src/kernels/batch.js";
import { contextOf, describeRow, groupByFile, iconOf, labelOf, type Known, type Row } from "../src/kernels/model.js";
import { ago, tooltipOf } from "../src/kernels/tooltip.js";

const known: Known = {
  timeUs: 148,
  time: "148 µs",
  provenance: "predicted",
  spread: "120–180 µs",
  fraction: 0.118,
  bound: "compute",
  bottleneck: "tile-too-small",
  reason: "a tile of 32×32 is read | often",
  error: "",
  launch: "a float16[512×512]",
  target: "offline (sm_90)",
  stale: false,
  at: "2026-01-01T00:00:00+00:00",
};
const row: Row = {
  uri: "file:///w/ops/matmul.py",
  file: "ops/matmul.py",
  kernel: "matmul_kernel",
  range: { start: { line: 3, character: 4 }, end: { line: 3, character: 17 } },
  launches: "known",
  known,
  suggestion: null,
  job: null,
};
const offered = { suggestion: "1", title: "BLOCK_M=64", gain: "4.26x (predicted)", summary: "4.26x faster (predicted)" };

test("a row says time, share, bottleneck and whether that is stale", () => {
  expect(describeRow(row)).toBe("148 µs predicted · 12 % of roofline · tile-too-small");
  expect(describeRow({ ...row, known: { ...known, stale: true } })).toMatch(/ · stale$/);
  expect(describeRow({ ...row, known: null })).toBe("not profiled yet");
  expect(describeRow({ ...row, known: null }, false)).toBe("");
  expect(describeRow({ ...row, known: null, launches: "unknown" })).toBe("no launch known");
  expect(describeRow({ ...row, job: { jobId: "1", verb: "optimizing" } })).toBe("optimizing …");
  expect(describeRow({ ...row, known: { ...known, time: "", fraction: null, bottleneck: "", error: "bad" } })).toBe(
    "does not compile",
  );
});

test("what can be done about a row follows from its state", () => {
  expect(contextOf(row)).toBe("kernel idle");
  expect(contextOf({ ...row, suggestion: offered })).toBe("kernel idle suggestion");
  expect(contextOf({ ...row, job: { jobId: "1", verb: "profiling" } })).toBe("kernel running");
  expect(iconOf({ ...row, suggestion: offered }).id).toBe("lightbulb");
  expect(iconOf({ ...row, known: { ...known, bottleneck: "at-roofline" } }).id).toBe("pass");
});

test("a screen reader hears the same", () => {
  expect(labelOf({ ...row, suggestion: offered })).toBe(
    "matmul_kernel, 148 µs predicted, 12 % of roofline, tile-too-small, 4.26x faster (predicted)",
  );
});

test("rows are grouped by file in their order", () => {
  const other = { ...row, uri: "file:///w/a.py", file: "a.py" };
  const groups = groupByFile([row, other, { ...row, kernel: "second" }]);
  expect(groups.map(({ file, rows }) => [file, rows.length])).toEqual([
    ["ops/matmul.py", 2],
    ["a.py", 1],
  ]);
});

test("the tooltip is a table in which nothing breaks the table", () => {
  const text = tooltipOf(row, Date.parse("2026-01-01T03:00:00Z"), true);
  expect(text).toContain("**matmul\\_kernel**");
  expect(text).toContain("| Time | 148 µs predicted (120–180 µs) |");
  expect(text).toContain("read \\| often |");
  expect(text).toContain("| Seen | 3 h ago |");
  expect(text).not.toContain("| Suggestion |");
  expect(tooltipOf({ ...row, known: null }, 0, true)).toContain("*Profile*");
});

test("ages are rounded down", () => {
  expect([30_000, 59 * 60_000, 47 * 3_600_000, 49 * 3_600_000].map(ago)).toEqual([
    "just now",
    "59 min ago",
    "47 h ago",
    "2 days ago",
  ]);
});

test("a few kernels with known launches are treated without a question", () => {
  expect(planBatch([row, row], "Profile", "offline")).toEqual({
    choices: [{ label: "Profile", rows: [row, row], allowRun: false }],
  });
});

test("many kernels are a question", () => {
  const plan = planBatch(new Array<Row>(12).fill(row), "Optimize", "offline");
  expect(plan.question).toBe("Optimize 12 kernels?");
  expect(plan.detail).toContain("“offline”");
  expect(plan.choices.map(({ allowRun }) => allowRun)).toEqual([false]);
});

test("running the user's code is a choice of its own, and never the only one where there is another", () => {
  const unknown: Row = { ...row, launches: "unknown", known: null };
  const plan = planBatch([row, unknown], "Profile", undefined);
  expect(plan.detail).toContain("No launch of 1 of them is known");
  expect(plan.choices).toEqual([
    { label: "Run and Profile", rows: [row, unknown], allowRun: true },
    { label: "Only the 1 with Known Launches", rows: [row], allowRun: false },
  ]);
  expect(planBatch([unknown], "Profile", undefined).choices).toHaveLength(1);
});

test("kernels that are being treated are left out", () => {
  expect(planBatch([{ ...row, job: { jobId: "1", verb: "profiling" } }], "Profile", undefined).choices).toEqual([]);
});
