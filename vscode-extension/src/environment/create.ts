import { setTimeout as sleep } from "node:timers/promises";

import { explain, SetupFailed } from "./failure.js";
import { pythonIn, type Bundled } from "./layout.js";
import type { Python } from "./python.js";
import type { Run } from "./run.js";
import type { EnvironmentStore } from "./store.js";

export interface Creation {
  readonly bundled: Bundled;
  readonly python: Python;
  readonly store: EnvironmentStore;
  readonly run: Run;
  /** Told what is being done, in a few words. */
  readonly onStep: (step: string) => void;
  /** Told every line that venv and pip print. */
  readonly onLine: (line: string) => void;
  readonly signal: AbortSignal;
  readonly environment?: NodeJS.ProcessEnv;
  /** Further arguments of `pip install`, for tests. */
  readonly pipArguments?: readonly string[];
  readonly pollMilliseconds?: number;
}

/**
 * Makes the server's own environment, or waits for the window that is making it, and returns its folder; undefined
 * when it was cancelled. What fails leaves nothing behind that could be taken for an environment.
 *
 * Throws SetupFailed with a sentence for the user.
 */
export async function createEnvironment(creation: Creation): Promise<string | undefined> {
  const { bundled, store, signal, onStep } = creation;
  while (await store.isBeingMade(bundled.key)) {
    onStep("another window is setting it up");
    await sleep(creation.pollMilliseconds ?? 500);
    if (signal.aborted) {
      return undefined;
    }
  }
  const made = await store.find(bundled.key);
  if (made !== undefined) {
    return made;
  }
  const folder = await store.begin(bundled.key);
  let complete = false;
  try {
    complete = await fill(folder, creation);
    if (complete) {
      await store.finish(folder, { key: bundled.key, python: creation.python.path });
    }
  } finally {
    if (!complete) {
      await store.remove(folder);
    }
  }
  await store.clean(bundled.key);
  return complete ? folder : undefined;
}

async function fill(folder: string, creation: Creation): Promise<boolean> {
  const { bundled, python, onStep, signal } = creation;
  const own = pythonIn(folder);
  const steps: readonly (readonly [string, string, readonly string[]])[] = [
    ["creating an environment", python.path, ["-I", "-m", "venv", folder]],
    [
      "installing packages",
      own,
      [
        "-I", "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--prefer-binary",
        "--progress-bar", "off", ...(creation.pipArguments ?? []), bundled.wheel,
      ],
    ],
    ["trying it out", own, ["-I", "-m", "tritonforge", "--version"]],
  ];
  const env = pipEnvironment(creation.environment ?? process.env);
  for (const [step, command, args] of steps) {
    onStep(step);
    const { code, output } = await creation.run(command, args, {
      env,
      signal,
      onLine: (line) => {
        creation.onLine(line);
        const named = stepOf(line);
        if (named !== undefined) {
          onStep(named);
        }
      },
    });
    if (signal.aborted) {
      return false;
    }
    if (code !== 0) {
      throw new SetupFailed(explain(output, python.path));
    }
  }
  return true;
}

/** What a line of pip's says that it is doing. */
export function stepOf(line: string): string | undefined {
  const collecting = /^Collecting ([A-Za-z0-9._-]+)/.exec(line)?.[1];
  if (collecting !== undefined) {
    return `fetching ${collecting}`;
  }
  return line.startsWith("Installing collected packages") ? "installing packages" : undefined;
}

/** The user's environment, with all of their pip's configuration but what would install somewhere else. */
export function pipEnvironment(environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const elsewhere = ["PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_PYTHON", "PIP_DRY_RUN", "PYTHONHOME", "PYTHONPATH"];
  const kept = Object.entries(environment).filter(([name]) => !elsewhere.includes(name.toUpperCase()));
  return { ...Object.fromEntries(kept), PIP_USER: "0", PYTHONUNBUFFERED: "1", PYTHONUTF8: "1" };
}
