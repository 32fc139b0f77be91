import { existsSync, mkdirSync, mkdtempSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { beforeEach, expect, test } from "vitest";

import { createEnvironment, pipEnvironment, stepOf, type Creation } from "../src/environment/create.js";
import { explain, SetupFailed } from "../src/environment/failure.js";
import { findBundled, pythonIn, STAMP } from "../src/environment/layout.js";
import { choosePython } from "../src/environment/python.js";
import { runProcess, type Outcome, type Run } from "../src/environment/run.js";
import { EnvironmentStore } from "../src/environment/store.js";

const MISSING = "/usr/bin/python3";
let folder: string;
let root: string;
let alive: Set<number>;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "tritonforge-environment-"));
  root = join(folder, "server");
  alive = new Set([1, 2]);
});

function store(pid = 1): EnvironmentStore {
  return new EnvironmentStore(root, (one) => alive.has(one), pid);
}

/** Stands in for venv and pip: makes the Python that they would make. */
const works: Run = (_, args) => {
  if (args.includes("venv")) {
    const python = pythonIn(args.at(-1) ?? "");
    mkdirSync(dirname(python), { recursive: true });
    writeFileSync(python, "", { mode: 0o755 });
  }
  return Promise.resolve({ code: 0, output: "" });
};

function fails(when: string, output: string): Run {
  return (command, args, options) =>
    args.includes(when) ? Promise.resolve({ code: 1, output }) : works(command, args, options);
}

function creation(changes: Partial<Creation> = {}): Creation {
  return {
    bundled: { wheel: "/ext/server/tritonforge-0.1.0-py3-none-any.whl", version: "0.1.0", key: "0.1.0-abc" },
    python: { path: MISSING, version: [3, 11, 2], whole: true },
    store: store(),
    run: works,
    onStep: () => undefined,
    onLine: () => undefined,
    signal: new AbortController().signal,
    pollMilliseconds: 5,
    ...changes,
  };
}

test("an environment is made once, and then found", async () => {
  const commands: string[] = [];
  const run: Run = (command, args, options) => {
    commands.push(`${command} ${args.join(" ")}`);
    return works(command, args, options);
  };
  const made = await createEnvironment(creation({ run }));
  expect(made && (await store().find("0.1.0-abc"))).toBe(made);
  expect(commands.map((line) => line.split(" ").slice(2, 4).join(" "))).toEqual(["-m venv", "-m pip", "-m tritonforge"]);
  expect(await createEnvironment(creation({ run }))).toBe(made);
  expect(commands).toHaveLength(3);
});

test.each(["venv", "pip", "tritonforge"])("when %s fails nothing is left, and the next try begins anew", async (step) => {
  const failing = createEnvironment(creation({ run: fails(step, "ERROR: something") }));
  await expect(failing).rejects.toThrow(new SetupFailed("pip failed: something."));
  expect(readdirSync(root)).toEqual([]);
  expect(await createEnvironment(creation())).toBeDefined();
});

test("a cancelled setup leaves nothing", async () => {
  const abort = new AbortController();
  const run: Run = async (command, args, options) => {
    if (args.includes("pip")) {
      abort.abort();
      return { code: null, output: "" };
    }
    return works(command, args, options);
  };
  expect(await createEnvironment(creation({ run, signal: abort.signal }))).toBeUndefined();
  expect(readdirSync(root)).toEqual([]);
});

test("a half-made environment is never used, and goes with the process that was making it", async () => {
  const half = await store(2).begin("0.1.0-abc");
  await works(MISSING, ["-m", "venv", half]);
  expect(await store().find("0.1.0-abc")).toBeUndefined();
  expect(await store().clean("0.1.0-abc")).toEqual([]);
  alive.delete(2);
  expect(await store().clean("0.1.0-abc")).toEqual([half]);
});

test("a second window waits for the first one's environment", async () => {
  const first = store(2);
  const making = await first.begin("0.1.0-abc");
  const steps: string[] = [];
  const second = createEnvironment(
    creation({
      run: () => Promise.reject(new Error("the second one makes nothing")),
      onStep: (step) => {
        steps.push(step);
        void works(MISSING, ["-m", "venv", making]).then(() => first.finish(making, { key: "0.1.0-abc", python: "" }));
      },
    }),
  );
  expect(await second).toBe(making);
  expect(steps[0]).toBe("another window is setting it up");
});

test("environments of other versions are removed once no window uses them", async () => {
  const old = await createEnvironment(creation({ bundled: { wheel: "w", version: "0.0.9", key: "0.0.9-xyz" } }));
  await store(2).use(old ?? "");
  const now = await createEnvironment(creation());
  expect(existsSync(old ?? "")).toBe(true);
  alive.delete(2);
  await store().clean("0.1.0-abc");
  expect(existsSync(old ?? "")).toBe(false);
  expect(existsSync(join(now ?? "", STAMP))).toBe(true);
});

test("an environment whose Python was removed is made anew", async () => {
  const made = (await createEnvironment(creation())) ?? "";
  const other = await store().begin("0.1.0-link");
  mkdirSync(join(other, "bin"));
  symlinkSync(join(folder, "gone"), join(other, "bin", "python"));
  await store().finish(other, { key: "0.1.0-link", python: "" });
  expect(await store().find("0.1.0-link")).toBeUndefined();
  expect(await store().find("0.1.0-abc")).toBe(made);
});

test("pip keeps the user's index and proxy, but installs nowhere else", () => {
  const env = pipEnvironment({
    PIP_INDEX_URL: "https://index",
    HTTPS_PROXY: "http://proxy",
    PIP_TARGET: "/elsewhere",
    PYTHONPATH: "/mine",
    PIP_USER: "1",
  });
  expect(env).toMatchObject({ PIP_INDEX_URL: "https://index", HTTPS_PROXY: "http://proxy", PIP_USER: "0" });
  expect(env["PIP_TARGET"] ?? env["PYTHONPATH"]).toBeUndefined();
});

test("what pip does is said in few words", () => {
  expect(stepOf("Collecting pygls<3,>=2.1.1")).toBe("fetching pygls");
  expect(stepOf("Installing collected packages: a, b")).toBe("installing packages");
  expect(stepOf("  Using cached x.whl")).toBeUndefined();
});

test.each([
  ["The virtual environment was not created successfully because ensurepip is not available.", /apt install python3-venv/],
  ["/usr/bin/python3: No module named venv", /apt install python3-venv/],
  ["Temporary failure in name resolution", /reached no package index/],
  ["SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED]'))", /certificate/],
  ["ProxyError('Cannot connect to proxy.')", /HTTPS_PROXY/],
  ["OSError: [Errno 28] No space left on device", /disk is full/],
  ["ERROR: No matching distribution found for libcst>=1.8", /no libcst>=1.8 that fits/],
  ["PermissionError: [Errno 13] Permission denied: '/opt/x'", /\/opt\/x cannot be written/],
  ["ERROR: Failed building wheel for libcst", /libcst has no ready-made wheel/],
  ["WARNING: a\nERROR: It is Tuesday", /pip failed: It is Tuesday\./],
  ["", /without a word/],
])("a failure is one sentence with the mend: %s", (output, sentence) => {
  expect(explain(output, "/usr/bin/python3")).toMatch(sentence);
});

test("the first Python that is new enough and has venv is taken", async () => {
  const versions: Record<string, string> = {
    "/a/python3": "[[3, 9, 2], true]",
    "/b/python3": "[[3, 12, 1], false]",
    "/c/python3": "[[3, 11, 4], true]",
    "/d/python3": "no JSON",
  };
  const run: Run = (command) => Promise.resolve({ code: command in versions ? 0 : 1, output: versions[command] ?? "" });
  const { chosen, seen } = await choosePython(["python3", ...Object.keys(versions), "/e/python3"], run);
  expect(chosen?.path).toBe("/c/python3");
  expect(seen).toHaveLength(3);
  expect((await choosePython(["/a/python3", "/b/python3"], run)).chosen?.path).toBe("/b/python3");
  expect((await choosePython(["/a/python3"], run)).chosen).toBeUndefined();
});

test("a wheel with other contents is another version", () => {
  expect(findBundled(folder)).toBeUndefined();
  mkdirSync(root);
  const wheel = join(root, "tritonforge-0.2.0-py3-none-any.whl");
  writeFileSync(wheel, "one");
  const first = findBundled(folder);
  writeFileSync(wheel, "two");
  expect(first).toMatchObject({ wheel, version: "0.2.0" });
  expect(findBundled(folder)?.key).not.toBe(first?.key);
});

test("a program that is cancelled ends with what it started, and one that is missing says so", async () => {
  const abort = new AbortController();
  const lines: string[] = [];
  const running: Promise<Outcome> = runProcess("/bin/sh", ["-c", "sleep 60 & echo begun; wait"], {
    signal: abort.signal,
    onLine: (line) => {
      lines.push(line);
      abort.abort();
    },
  });
  expect((await running).code).toBeNull(); // resolves only when the pipe is closed: by the background process, too
  expect(lines).toEqual(["begun"]);
  expect((await runProcess("/nowhere/python", [])).output).toContain("ENOENT");
});
