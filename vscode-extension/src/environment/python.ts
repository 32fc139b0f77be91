import { isAbsolute } from "node:path";

import type { Run } from "./run.js";

/** The oldest Python that the server runs in. */
export const OLDEST: readonly [number, number] = [3, 11];

/** A Python that was asked what it is. `whole` says that it can make environments with pip in them. */
export interface Python {
  readonly path: string;
  readonly version: readonly [number, number, number];
  readonly whole: boolean;
}

const LOOK =
  "import importlib.util, json, sys; print(json.dumps([list(sys.version_info[:3]), " +
  "all(importlib.util.find_spec(name) is not None for name in ('venv', 'ensurepip'))]))";

/** What the Python at `path` is; undefined where it does not start or answers something else. */
export async function lookAt(path: string, run: Run): Promise<Python | undefined> {
  if (!isAbsolute(path)) {
    return undefined; // a relative one would be the workspace's to fill
  }
  const { code, output } = await run(path, ["-I", "-c", LOOK], { milliseconds: 15_000 });
  if (code !== 0) {
    return undefined;
  }
  try {
    const [version, whole] = JSON.parse(output.trim().split("\n").at(-1) ?? "") as [number[], unknown];
    const [major, minor, patch] = version;
    return major === undefined || minor === undefined
      ? undefined
      : { path, version: [major, minor, patch ?? 0], whole: Boolean(whole) };
  } catch {
    return undefined;
  }
}

/** The first of `paths` that is new enough and whole, else the first that is new enough; with all that were seen. */
export async function choosePython(
  paths: readonly string[],
  run: Run,
): Promise<{ readonly chosen: Python | undefined; readonly seen: readonly Python[] }> {
  const seen: Python[] = [];
  for (const path of new Set(paths)) {
    const found = await lookAt(path, run);
    if (found) {
      seen.push(found);
      if (isNewEnough(found) && found.whole) {
        return { chosen: found, seen };
      }
    }
  }
  return { chosen: seen.find(isNewEnough), seen };
}

export function isNewEnough({ version: [major, minor] }: Python): boolean {
  return major > OLDEST[0] || (major === OLDEST[0] && minor >= OLDEST[1]);
}
