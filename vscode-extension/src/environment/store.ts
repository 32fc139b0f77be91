import { randomBytes } from "node:crypto";
import { constants } from "node:fs";
import { access, mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { pythonIn, STAMP, type Stamp } from "./layout.js";

const USERS = "users";
const MAKER = "maker";

/** The environments of one folder. Several windows share it, each with a process of its own. */
export class EnvironmentStore {
  constructor(
    private readonly folder: string,
    private readonly isAlive: (pid: number) => boolean = processIsAlive,
    private readonly pid: number = process.pid,
  ) {}

  /** The complete environment of `key` whose Python is still there; undefined where there is none. */
  async find(key: string): Promise<string | undefined> {
    for (const path of await this.all()) {
      const stamp = await readStamp(path);
      if (stamp?.key === key && (await isExecutable(pythonIn(path)))) {
        return path;
      }
    }
    return undefined;
  }

  /** A folder for a new environment, known to be in the making by this process. */
  async begin(key: string): Promise<string> {
    const path = join(this.folder, `${key}-${randomBytes(4).toString("hex")}`);
    await mkdir(path, { recursive: true });
    await writeFile(join(path, MAKER), String(this.pid));
    return path;
  }

  /** Makes a new environment complete. */
  async finish(path: string, stamp: Stamp): Promise<void> {
    const draft = join(path, `${STAMP}.tmp`);
    await writeFile(draft, JSON.stringify(stamp));
    await rename(draft, join(path, STAMP));
    await rm(join(path, MAKER), { force: true });
  }

  /** Notes that this process uses an environment, so that no other window removes it. */
  async use(path: string): Promise<void> {
    await mkdir(join(path, USERS), { recursive: true });
    await writeFile(join(path, USERS, String(this.pid)), "");
  }

  /** Whether another living process is making an environment of `key` right now. */
  async isBeingMade(key: string): Promise<boolean> {
    for (const path of await this.all()) {
      const maker = await this.makerOf(path);
      if (path.startsWith(join(this.folder, `${key}-`)) && maker !== undefined && maker !== this.pid) {
        return true;
      }
    }
    return false;
  }

  /** Removes what is half-made or not of `key`, except what a living process makes or uses. Returns what is gone. */
  async clean(key: string): Promise<string[]> {
    const removed = [];
    for (const path of await this.all()) {
      const stamp = await readStamp(path);
      if (stamp?.key === key || (await this.makerOf(path)) !== undefined || (await this.isUsed(path))) {
        continue;
      }
      await this.remove(path);
      removed.push(path);
    }
    return removed;
  }

  /** Removes one environment; what cannot be removed is left without its stamp, and so is not used again. */
  async remove(path: string): Promise<void> {
    await rm(join(path, STAMP), { force: true });
    await rm(path, { recursive: true, force: true, maxRetries: 3 }).catch(() => undefined);
  }

  private async all(): Promise<string[]> {
    try {
      const entries = await readdir(this.folder, { withFileTypes: true });
      return entries.filter((entry) => entry.isDirectory()).map(({ name }) => join(this.folder, name));
    } catch {
      return [];
    }
  }

  private async makerOf(path: string): Promise<number | undefined> {
    const pid = Number(await readFile(join(path, MAKER), "utf8").catch(() => "0"));
    return pid > 0 && this.isAlive(pid) ? pid : undefined;
  }

  private async isUsed(path: string): Promise<boolean> {
    const users = await readdir(join(path, USERS)).catch(() => []);
    return users.some((name) => Number(name) > 0 && this.isAlive(Number(name)));
  }
}

async function readStamp(path: string): Promise<Partial<Stamp> | undefined> {
  try {
    return JSON.parse(await readFile(join(path, STAMP), "utf8")) as Partial<Stamp>;
  } catch {
    return undefined;
  }
}

async function isExecutable(file: string): Promise<boolean> {
  try {
    await access(file, constants.X_OK); // follows the link: a Python that was removed since is no Python
    return true;
  } catch {
    return false;
  }
}

function processIsAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
