import type { Row } from "./model.js";

export type Verb = "Profile" | "Optimize";

/** One way to go on with several kernels. */
export interface Choice {
  readonly label: string;
  readonly rows: readonly Row[];
  /** Whether what is needed of the user's code is run to see launches. */
  readonly allowRun: boolean;
}

/** `question` is left out where nothing has to be asked: then the only choice is taken. */
export interface Plan {
  readonly question?: string;
  readonly detail?: string;
  readonly choices: readonly Choice[];
}

const FEW = 3;

/** How several kernels are profiled or optimised: what needs the user's code to be run is a decision of its own. */
export function planBatch(rows: readonly Row[], verb: Verb, target: string | undefined): Plan {
  const idle = rows.filter(({ job }) => job === null);
  const known = idle.filter(({ launches }) => launches === "known");
  const unknown = idle.length - known.length;
  const where = target === undefined ? "" : ` on the target “${target}”`;
  if (idle.length === 0) {
    return { choices: [] };
  }
  if (unknown === 0 && idle.length <= FEW) {
    return { choices: [{ label: verb, rows: idle, allowRun: false }] };
  }
  const one = `They are treated one after the other${where}; the job can be cancelled at any time.`;
  if (unknown === 0) {
    return { question: `${verb} ${idle.length} kernels?`, detail: one, choices: [{ label: verb, rows: idle, allowRun: false }] };
  }
  const needed = `No launch of ${unknown} of them is known: to see some, their files, or tests that call them, are run.`;
  return {
    question: idle.length === 1 ? `${verb} ${idle[0]?.kernel ?? ""}?` : `${verb} ${idle.length} kernels?`,
    detail:
      idle.length === 1
        ? "No launch of it is known: to see one, its file, or a test that calls it, is run."
        : `${needed} ${one}`,
    choices: [
      { label: `Run and ${verb}`, rows: idle, allowRun: true },
      ...(known.length > 0 ? [{ label: `Only the ${known.length} with Known Launches`, rows: known, allowRun: false }] : []),
    ],
  };
}
