import { sep } from "node:path";

import { runProcess } from "../environment/run.js";
import { findOnPath } from "../process.js";
import type { ServerSource, Surroundings } from "./source.js";

const SERVE = ["serve", "--stdio"];

/** `tritonforge.server`, as it stands. */
export const fromSetting: ServerSource = ({ configured }) => {
  const [command, ...args] = configured;
  return Promise.resolve(
    command === undefined ? undefined : { command, args, source: "the setting tritonforge.server" },
  );
};

/** `python -m tritonforge` of the selected interpreter, where TritonForge is installed there. */
export const fromInterpreter: ServerSource = async (surroundings) => {
  const python = surroundings.interpreter;
  if (python === undefined || !mayRun(python, surroundings)) {
    return undefined;
  }
  // -P: a folder of the workspace called tritonforge is not the server.
  const look = "import importlib.util, sys; sys.exit(importlib.util.find_spec('tritonforge.lsp') is None)";
  const { code } = await runProcess(python, ["-P", "-c", look], { milliseconds: 15_000 });
  return code === 0
    ? { command: python, args: ["-P", "-m", "tritonforge", ...SERVE], source: "the selected interpreter" }
    : undefined;
};

/** `tritonforge` on PATH. */
export const fromPath: ServerSource = async (surroundings) => {
  const command = await findOnPath("tritonforge");
  return command === undefined || !mayRun(command, surroundings)
    ? undefined
    : { command, args: SERVE, source: "PATH" };
};

/** A workspace that is not trusted may bring its own environment: what lies inside it is not started. */
export function mayRun(program: string, { trusted, workspaceFolders }: Surroundings): boolean {
  return trusted || !workspaceFolders.some((folder) => program.startsWith(folder + sep));
}
