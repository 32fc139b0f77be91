import { expect, test } from "vitest";

import type { Run } from "../src/environment/run.js";
import { advise, type Situation } from "../src/interpreter/advice.js";
import { check, describe } from "../src/interpreter/check.js";

const whole = { python: "3.12.4", torch: "2.9.0", triton: "3.5.0" };
const linux: Situation = { path: "/venv/bin/python", checked: whole, platform: "linux", remote: false };

test("a Python with both packages needs nothing", () => {
  expect(advise(linux)).toBeUndefined();
});

test("what is missing is named with the command that installs it", () => {
  const advice = advise({ ...linux, path: "/my venv/bin/python", checked: { ...whole, triton: null } });
  expect(advice?.sentence).toContain("/my venv/bin/python has no triton.");
  expect(advice?.install).toBe("'/my venv/bin/python' -m pip install triton");
  expect(advise({ ...linux, checked: { python: "3.9.2", torch: null, triton: null } })?.brief).toBe("no torch, no triton");
});

test("without an interpreter, or with one that does not start, the picker is offered", () => {
  expect(advise({ ...linux, path: undefined, checked: undefined })?.remedies[0]).toBe("select");
  expect(advise({ ...linux, checked: undefined })?.sentence).toContain("does not start");
});

test("on macOS and Windows a container or another machine is offered, and pip is not", () => {
  for (const platform of ["darwin", "win32"] as const) {
    const advice = advise({ ...linux, platform, checked: { ...whole, triton: null } });
    expect(advice?.sentence).toMatch(/container or a Linux machine/);
    expect(advice?.install).toBeUndefined();
    expect(advice?.remedies[0]).toBe("target");
  }
  expect(advise({ ...linux, platform: "win32" })).toBeUndefined(); // a build of triton for Windows is there
});

test("a target elsewhere needs no Python here", () => {
  expect(advise({ path: undefined, checked: undefined, platform: "darwin", remote: true })).toBeUndefined();
});

test("the packages are looked for outside the workspace, without importing them", async () => {
  const seen: string[] = [];
  const run: Run = (_, args, options) => {
    seen.push(options?.cwd ?? "", args.join(" "));
    return Promise.resolve({ code: 0, output: `a warning\n${JSON.stringify(whole)}\n` });
  };
  const checked = await check("/venv/bin/python", run, "/home/me");
  expect(checked && describe(checked)).toBe("Python 3.12.4 · torch 2.9.0 · triton 3.5.0");
  expect(seen[0]).toBe("/home/me");
  expect(seen[1]).not.toMatch(/import (torch|triton)/);
});
