import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** The server as the extension brings it. `key` changes with its contents. */
export interface Bundled {
  readonly wheel: string;
  readonly version: string;
  readonly key: string;
}

/** The wheel in the extension's folder; undefined where it was packaged without one. */
export function findBundled(extensionFolder: string): Bundled | undefined {
  const folder = join(extensionFolder, "server");
  let names: string[];
  try {
    names = readdirSync(folder);
  } catch {
    return undefined;
  }
  for (const name of names) {
    const version = /^tritonforge-([^-]+)-.*\.whl$/.exec(name)?.[1];
    if (version !== undefined) {
      const wheel = join(folder, name);
      const hash = createHash("sha256").update(readFileSync(wheel)).digest("hex").slice(0, 12);
      return { wheel, version, key: `${version}-${hash}` };
    }
  }
  return undefined;
}

/** Written last into an environment: one without it is half-made, and is never used. */
export const STAMP = "complete.json";

export interface Stamp {
  readonly key: string;
  readonly python: string;
}

export function pythonIn(environment: string, platform: NodeJS.Platform = process.platform): string {
  return platform === "win32" ? join(environment, "Scripts", "python.exe") : join(environment, "bin", "python");
}

/** How the server of an environment is started: nothing of PYTHONPATH or the user's own packages gets into it. */
export const SERVE: readonly string[] = ["-I", "-m", "tritonforge", "serve", "--stdio"];
