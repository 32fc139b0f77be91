import { readdir } from "node:fs/promises";
import { join } from "node:path";

import { pythonIn } from "../environment/layout.js";
import { isExecutable } from "../process.js";

/** Interpreters that lie in these folders: of their virtual environments, one level down. */
export async function inFolders(folders: readonly string[]): Promise<string[]> {
  const found = [];
  for (const folder of folders) {
    const names = await readdir(folder, { withFileTypes: true }).catch(() => []);
    for (const entry of names) {
      const python = pythonIn(join(folder, entry.name));
      if ((entry.isDirectory() || entry.isSymbolicLink()) && (await isExecutable(python))) {
        found.push(python);
      }
    }
  }
  return found;
}

/** The Python of the Conda or virtual environment that VS Code was started from, if any. */
export function ofShell(env: NodeJS.ProcessEnv): string[] {
  return [env["VIRTUAL_ENV"], env["CONDA_PREFIX"]].filter((path) => path !== undefined && path !== "").map((path) => pythonIn(path ?? ""));
}
