import { expect, test } from "vitest";

import { memoryOf, messageOf, problemPage } from "../src/report/answer.js";
import { currentLine, fileName } from "../src/report/place.js";

const LINES = ["import triton", "", "@triton.jit", "def k(x):", "    v = tl.load(x)", "", "    v = tl.load(x)"];

function find(line: number, text: string): number {
  return currentLine(LINES.length, (at) => LINES[at] ?? "", line, text);
}

test("a line that has not moved is found where it was", () => {
  expect(find(4, "def k(x):")).toBe(3);
});

test("a line that was moved by an edit above it is found by its text, the nearest one where it is there twice", () => {
  expect(find(1, "def k(x):")).toBe(3);
  expect(find(8, "v = tl.load(x)")).toBe(6);
  expect(find(5, "v = tl.load(x)")).toBe(4);
});

test("a line that is gone, an empty one, and one past the end lead to the nearest place that there is", () => {
  expect(find(2, "gone")).toBe(1);
  expect(find(2, "  ")).toBe(1);
  expect(find(99, "gone")).toBe(6);
  expect(currentLine(0, () => "", 3, "x")).toBe(0);
});

test("only what the page can mean is acted on", () => {
  const reveal = { type: "reveal", kernel: 0, line: 3, text: "x" };
  expect(messageOf(reveal)).toEqual({ ...reveal, focus: false });
  expect(messageOf({ type: "apply", kernel: 1 })).toEqual({ type: "apply", kernel: 1 });
  for (const odd of [
    undefined, null, "apply", {}, { type: "apply" }, { type: "apply", kernel: -1 }, { type: "delete", kernel: 0 },
    { ...reveal, line: 0 }, { ...reveal, line: 1.5 }, { ...reveal, text: 3 },
  ]) {
    expect(messageOf(odd)).toBeUndefined();
  }
});

test("a report is opened again with what its page remembered, and with nothing where that is damaged", () => {
  expect(memoryOf({ uri: "file:///k.py", kernel: "k", tab: "PTX" })).toEqual({ uri: "file:///k.py", kernel: "k" });
  expect(memoryOf({ uri: "file:///two.ncu-rep", kernel: "" })).toEqual({ uri: "file:///two.ncu-rep" });
  expect(memoryOf({ kernel: "k" })).toBeUndefined();
  expect(memoryOf(undefined)).toBeUndefined();
});

test("a problem is shown as text, whatever it contains", () => {
  const page = problemPage('<script>alert("&")</script>');
  expect(page).not.toContain("<script>");
  expect(page).toContain("default-src 'none'");
});

test("a report is saved under a name that every file system takes", () => {
  expect(fileName("matmul_kernel")).toBe("matmul_kernel-report.html");
  expect(fileName("../Rows.<softmax>")).toBe("Rows.-softmax-report.html");
  expect(fileName("…")).toBe("kernel-report.html");
});
