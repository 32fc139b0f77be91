import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, expect, test } from "vitest";

import { createEnvironment } from "../src/environment/create.js";
import { findBundled, pythonIn } from "../src/environment/layout.js";
import { lookAt } from "../src/environment/python.js";
import { runProcess, type Run } from "../src/environment/run.js";
import { EnvironmentStore } from "../src/environment/store.js";

// `make vsix` builds the wheel before it tests. The repository's own environment stands in for the package index.
const bundled = findBundled(".");
const own = resolve("../.venv/bin/python");
const folder = mkdtempSync(join(tmpdir(), "tritonforge-real-"));

afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

test.skipIf(bundled === undefined || !existsSync(own))(
  "venv and pip make an environment from the bundled wheel, and the server answers in it",
  { timeout: 180_000 },
  async () => {
    const python = await lookAt(own, runProcess);
    if (bundled === undefined || python === undefined) {
      throw new Error("the wheel and the environment are there");
    }
    const lines: string[] = [];
    const run: Run = async (command, args, options) => {
      const outcome = await runProcess(command, args, options);
      if (args.includes("venv")) {
        const [version = ""] = readdirSync(join(args.at(-1) ?? "", "lib"));
        const packages = join("lib", version, "site-packages");
        writeFileSync(join(args.at(-1) ?? "", packages, "dependencies.pth"), resolve("../.venv", packages));
      }
      return outcome;
    };
    const store = new EnvironmentStore(join(folder, "server"));
    const made = await createEnvironment({
      bundled,
      python,
      store,
      run,
      onStep: () => undefined,
      onLine: (line) => lines.push(line),
      signal: new AbortController().signal,
      pipArguments: ["--no-deps", "--no-index"],
    });
    expect(made).toBeDefined();
    expect(await store.find(bundled.key)).toBe(made);
    expect(lines.join("\n")).toContain("Successfully installed tritonforge");
    const look = "import tritonforge.lsp.server; print(tritonforge.lsp.server.__file__)";
    const { code, output } = await runProcess(pythonIn(made ?? ""), ["-I", "-c", look]);
    expect(code).toBe(0);
    expect(output.startsWith(made ?? "-")).toBe(true);
  },
);
