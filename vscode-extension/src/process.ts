import { constants } from "node:fs";
import { access, stat } from "node:fs/promises";
import { delimiter, isAbsolute, join } from "node:path";
import { env, platform } from "node:process";

/** The absolute path of a program in the absolute folders of PATH (a relative one would be the workspace's to fill). */
export async function findOnPath(name: string, path = env["PATH"] ?? ""): Promise<string | undefined> {
  const endings = platform === "win32" ? [".exe", ".cmd", ".bat"] : [""];
  for (const folder of path.split(delimiter).filter(isAbsolute)) {
    for (const ending of endings) {
      const file = join(folder, name + ending);
      if (await isExecutable(file)) {
        return file;
      }
    }
  }
  return undefined;
}

export async function isExecutable(file: string): Promise<boolean> {
  try {
    await access(file, constants.X_OK);
    return (await stat(file)).isFile();
  } catch {
    return false;
  }
}
