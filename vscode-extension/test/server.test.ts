import assert from "node:assert/strict";
import { chmodSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "vitest";

import { findOnPath } from "../src/process.js";
import { findServer, type Surroundings } from "../src/server/source.js";
import { fromInterpreter, fromSetting } from "../src/server/sources.js";

const nothing: Surroundings = { configured: [], interpreter: undefined, trusted: true, workspaceFolders: [] };

function program(folder: string, name: string, exitCode: number): string {
  const file = join(folder, name);
  writeFileSync(file, `#!/bin/sh\nexit ${exitCode}\n`);
  chmodSync(file, 0o755);
  return file;
}

const folder = mkdtempSync(join(tmpdir(), "tritonforge-"));
const withTool = program(folder, "python-with", 0);
const without = program(folder, "python-without", 1);

test("the setting wins over everything else", async () => {
  const found = await findServer([fromSetting, fromInterpreter], {
    ...nothing,
    configured: ["/opt/tritonforge", "serve", "--stdio"],
    interpreter: withTool,
  });
  assert.equal(found?.command, "/opt/tritonforge");
  assert.deepEqual(found.args, ["serve", "--stdio"]);
});

test("the selected interpreter serves where the tool is installed in it, and not elsewhere", async () => {
  const found = await findServer([fromSetting, fromInterpreter], { ...nothing, interpreter: withTool });
  assert.deepEqual(found?.args, ["-P", "-m", "tritonforge", "serve", "--stdio"]);
  assert.equal(await findServer([fromInterpreter], { ...nothing, interpreter: without }), undefined);
});

test("an interpreter inside a workspace that is not trusted is not started", async () => {
  const surroundings = { ...nothing, interpreter: withTool, workspaceFolders: [folder] };
  assert.notEqual(await findServer([fromInterpreter], surroundings), undefined);
  assert.equal(await findServer([fromInterpreter], { ...surroundings, trusted: false }), undefined);
});

test("a relative folder on PATH is not searched", async () => {
  assert.equal(await findOnPath("python-with", `.:${folder}`), withTool);
  assert.equal(await findOnPath("sources.ts", "src/server"), undefined);
});
