import { expect, test } from "vitest";

import { LogLines } from "../src/ui/levels.js";
import { show, type Overview } from "../src/ui/state.js";

const ready: Overview = { server: { kind: "ready" }, jobs: [], target: undefined, python: undefined, trusted: true };
const offline = { target: "offline", kind: "offline" } as const;
const job = { title: "Optimize matmul_kernel", message: "compile 12/40" };

test("a ready server shows the target kernels run on", () => {
  expect(show({ ...ready, target: offline })?.text).toBe("$(zap) TritonForge: offline");
});

test("a target with a GPU is called by the GPU's name, and the tooltip says the rest", () => {
  const target = { target: "auto", kind: "gpu", gpu: "NVIDIA H200", text: "local (NVIDIA H200, triton 3.7.1)" } as const;
  const shown = show({ ...ready, target });
  expect(shown?.text).toBe("$(zap) TritonForge: NVIDIA H200");
  expect(shown?.tooltip).toContain("triton 3.7.1");
});

test("a server that has not said its target yet does not name one", () => {
  expect(show(ready)?.text).toBe("$(zap) TritonForge");
});

test("a target that could not be opened is a warning that says why", () => {
  const shown = show({ ...ready, target: { target: "lab", kind: "unknown", problem: "gpu1 does not answer." } });
  expect(shown).toEqual({
    text: "$(warning) TritonForge: lab",
    tooltip: "gpu1 does not answer.",
    severity: "warning",
  });
});

test("a job in progress shows its step, and its tooltip every job", () => {
  const shown = show({ ...ready, jobs: [job, { title: "Profile softmax_kernel" }], target: offline });
  expect(shown?.text).toBe("$(sync~spin) Optimize matmul_kernel: compile 12/40 (+1)");
  expect(shown?.tooltip).toBe("Optimize matmul_kernel: compile 12/40\nProfile softmax_kernel");
});

test("a long step is cut at a code point and keeps the status bar short", () => {
  expect(show({ ...ready, jobs: [{ title: "🔥".repeat(100) }] })?.text).toBe(`$(sync~spin) ${"🔥".repeat(47)}…`);
});

test("a problem is shown even while a job is listed, with its sentence in the tooltip", () => {
  const shown = show({ ...ready, server: { kind: "problem", message: "The server has stopped." }, jobs: [job] });
  expect(shown?.severity).toBe("error");
  expect(shown?.tooltip).toBe("The server has stopped.");
});

test("nothing is shown before anything needs the server, and Restricted Mode is said", () => {
  expect(show({ ...ready, server: { kind: "waiting" } })).toBeUndefined();
  expect(show({ ...ready, trusted: false })?.tooltip).toContain("Restricted Mode");
});

test("the server's log keeps its levels, and a traceback stays with its error", () => {
  const lines = new LogLines();
  const read = [
    "2026-11-30 13:13:43,303 WARNING tritonforge.lsp: a message could not be read",
    "2026-11-30 13:13:44,000 ERROR tritonforge.lsp: job 1 failed",
    "Traceback (most recent call last):",
    "2026-11-30 13:13:45,000 INFO tritonforge.lsp: done",
  ].map((line) => lines.read(line));
  expect(read.map(({ level }) => level)).toEqual(["warn", "error", "error", "info"]);
  expect(read[0]?.text).toBe("tritonforge.lsp: a message could not be read");
});
