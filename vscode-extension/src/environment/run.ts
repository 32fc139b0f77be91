import { spawn } from "node:child_process";

export interface RunOptions {
  readonly env?: NodeJS.ProcessEnv;
  readonly signal?: AbortSignal;
  readonly milliseconds?: number;
  readonly cwd?: string;
  /** Told each line of standard output and standard error as it comes. */
  readonly onLine?: (line: string) => void;
}

/** `code` is null where the program did not start, was ended by a signal, or was cancelled. */
export interface Outcome {
  readonly code: number | null;
  readonly output: string;
}

/** Runs a program to its end; never throws. */
export type Run = (command: string, args: readonly string[], options?: RunOptions) => Promise<Outcome>;

const LONGEST_OUTPUT = 200_000;

/** Runs a program as a child process. One that is cancelled is ended with everything that it started. */
export const runProcess: Run = (command, args, options = {}) =>
  new Promise((resolve) => {
    const { env, signal, milliseconds, cwd, onLine } = options;
    if (signal?.aborted) {
      resolve({ code: null, output: "" });
      return;
    }
    const ownGroup = process.platform !== "win32";
    const child = spawn(command, args, {
      env: env ?? process.env,
      stdio: ["ignore", "pipe", "pipe"],
      windowsHide: true,
      detached: ownGroup, // pip starts programs of its own
      ...(cwd !== undefined && { cwd }),
    });
    let output = "";
    let rest = "";
    const end = (): void => {
      try {
        if (ownGroup && child.pid !== undefined) {
          process.kill(-child.pid, "SIGKILL");
        } else {
          child.kill("SIGKILL");
        }
      } catch {
        // it has ended by itself
      }
    };
    const take = (data: string): void => {
      output = (output + data).slice(-LONGEST_OUTPUT);
      const lines = (rest + data).split(/\r?\n/);
      rest = lines.pop() ?? "";
      lines.forEach((line) => onLine?.(line));
    };
    const timer = milliseconds === undefined ? undefined : setTimeout(end, milliseconds);
    const finish = (code: number | null): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      if (rest !== "") {
        onLine?.(rest);
        rest = "";
      }
      resolve({ code, output });
    };
    signal?.addEventListener("abort", end, { once: true });
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8");
      stream.on("data", take);
    }
    child.on("error", (error) => {
      take(`${error.message}\n`);
      finish(null);
    });
    child.on("close", finish);
  });
