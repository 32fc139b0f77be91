import assert from "node:assert/strict";
import { test } from "vitest";

import { show } from "../src/ui/state.js";

const job = { title: "Optimize matmul_kernel", message: "compile 12/40" };

test("a ready server shows the target kernels run on", () => {
  assert.equal(show({ kind: "ready" }, [], "offline").text, "$(zap) TritonForge: offline");
});

test("a server that has not said its target yet does not name one", () => {
  assert.equal(show({ kind: "ready" }, [], undefined).text, "$(zap) TritonForge");
});

test("a job in progress shows its step, and its tooltip every job", () => {
  const shown = show({ kind: "ready" }, [job, { title: "Profile softmax_kernel" }], "offline");
  assert.equal(shown.text, "$(sync~spin) Optimize matmul_kernel: compile 12/40 (+1)");
  assert.equal(shown.tooltip, "Optimize matmul_kernel: compile 12/40\nProfile softmax_kernel");
});

test("a long step is cut at a code point and keeps the status bar short", () => {
  const { text } = show({ kind: "ready" }, [{ title: "🔥".repeat(100) }], undefined);
  assert.equal(text, `$(sync~spin) ${"🔥".repeat(47)}…`);
});

test("a problem is shown even while a job is listed, with its sentence in the tooltip", () => {
  const shown = show({ kind: "problem", message: "The server has stopped." }, [job], "offline");
  assert.equal(shown.severity, "error");
  assert.equal(shown.tooltip, "The server has stopped.");
});
