import { execFile } from "node:child_process";
import { constants } from "node:fs";
import { access, stat } from "node:fs/promises";
import { delimiter, isAbsolute, join } from "node:path";
import { env, platform } from "node:process";

/** Whether the command ends with exit code 0 within the time. */
export function succeeds(command: string, args: readonly string[], milliseconds = 15_000): Promise<boolean> {
  return new Promise((resolve) => {
    execFile(command, args, { timeout: milliseconds, windowsHide: true }, (error) => {
      resolve(error === null);
    });
  });
}

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
