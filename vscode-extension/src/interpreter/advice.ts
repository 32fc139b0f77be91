import type { Checked } from "./check.js";

/** What the user can do about a missing interpreter, package or platform; the commands behind are in commands.ts. */
export type Remedy = "select" | "install" | "target";

export interface Advice {
  /** A few words, for a status item. */
  readonly brief: string;
  readonly sentence: string;
  readonly remedies: readonly Remedy[];
  /** The command that installs what is missing, for a terminal. */
  readonly install?: string;
}

export interface Situation {
  readonly path: string | undefined;
  /** Undefined where the interpreter does not start. */
  readonly checked: Checked | undefined;
  readonly platform: NodeJS.Platform;
  /** Whether kernels run somewhere else: in a container, on another machine. */
  readonly remote: boolean;
}

const ONLY_ANALYSED = "Until then kernels are only analysed.";

/** What is missing to compile, check and run kernels, with the mend; undefined where everything is there. */
export function advise({ path, checked, platform, remote }: Situation): Advice | undefined {
  if (remote || (checked?.torch && checked.triton)) {
    return undefined;
  }
  if (platform === "darwin" || (platform === "win32" && !checked?.triton)) {
    const system = platform === "darwin" ? "macOS" : "Windows";
    return {
      brief: `no Triton on ${system}`,
      sentence:
        `Triton does not run on ${system}. Add a container or a Linux machine as target, or open the folder there ` +
        `(Dev Containers, Remote SSH${platform === "win32" ? ", WSL" : ""}). ${ONLY_ANALYSED}`,
      remedies: ["target", "select"],
    };
  }
  if (path === undefined) {
    return {
      brief: "no interpreter",
      sentence: `Select the Python that has torch and triton. ${ONLY_ANALYSED}`,
      remedies: ["select", "target"],
    };
  }
  if (checked === undefined) {
    return {
      brief: "does not start",
      sentence: `${path} does not start. Select the Python that has torch and triton. ${ONLY_ANALYSED}`,
      remedies: ["select"],
    };
  }
  const missing = (["torch", "triton"] as const).filter((name) => !checked[name]);
  return {
    brief: missing.map((name) => `no ${name}`).join(", "),
    sentence: `${path} has no ${missing.join(" and no ")}. Install what is missing, or select another Python. ${ONLY_ANALYSED}`,
    remedies: ["install", "select"],
    install: `${quoted(path)} -m pip install ${missing.join(" ")}`,
  };
}

function quoted(path: string): string {
  return /^[\w@%+=:,./~-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;
}
