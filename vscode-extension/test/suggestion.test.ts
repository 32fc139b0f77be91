import { expect, test } from "vitest";

import { diffTitle, format, isSuggestion, parse } from "../src/suggestion/address.js";
import { TEMPLATES, withTarget } from "../src/target/template.js";

const id = { uri: "file:///w/a%20b%26c/matmul.py", kernel: "Outer.matmul_kernel", suggestion: "tritonforge-3" };

test("a suggestion's address leads back to it", () => {
  expect(parse(format(id))).toEqual(id);
  expect(parse(`tritonforge-suggestion:/w/matmul.py?${format(id)}`)).toEqual(id);
  expect(parse("uri=file:///x.py")).toBeUndefined();
  expect(isSuggestion("tritonforge-suggestion:/x?y")).toBe(true);
  expect(isSuggestion("file:///x")).toBe(false);
});

test("the address that the server makes is understood", () => {
  const made = "tritonforge-suggestion:/w/matmul.py?uri=file%3A///w/matmul.py&kernel=k&suggestion=tritonforge-1";
  expect(parse(made)).toEqual({ uri: "file:///w/matmul.py", kernel: "k", suggestion: "tritonforge-1" });
});

test("the title of the diff has the file, the kernel and the numbers", () => {
  const preview = { ...id, title: "BLOCK_M=64", gain: "", summary: "4.26x faster (predicted), verified on 9 inputs", text: "" };
  expect(diffTitle(preview)).toBe("matmul.py · Outer.matmul_kernel: 4.26x faster (predicted), verified on 9 inputs");
});

test("a new target never takes the name of another", () => {
  const [container] = TEMPLATES;
  if (container === undefined) {
    throw new Error("there are templates");
  }
  const once = withTarget("", container);
  const twice = withTarget(once, container);
  expect(once).toMatch(/^\[targets\.container\]\n/);
  expect(twice).toContain("\n\n[targets.container-2]\n");
});
