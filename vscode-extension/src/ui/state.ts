import type { Advice } from "../interpreter/advice.js";
import type { Checked } from "../interpreter/check.js";

/** What the session is doing. `waiting`: nothing has asked for a server yet. */
export type ServerState =
  | { readonly kind: "waiting" }
  | { readonly kind: "stopped" }
  | { readonly kind: "starting" }
  | { readonly kind: "ready" }
  | { readonly kind: "problem"; readonly message: string };

/** A job in progress, as the server reports it. */
export interface Job {
  readonly title: string;
  readonly message?: string | undefined;
  readonly percentage?: number | undefined;
}

/** What the server knows of the target (`tritonforge.describeTarget`, docs/editor.md). */
export interface Target {
  readonly target: string;
  readonly kind: "gpu" | "offline" | "unknown";
  readonly command?: readonly string[];
  /** Its own Python, else the selected interpreter. */
  readonly python?: string | null;
  readonly gpu?: string | null;
  readonly text?: string;
  readonly problem?: string | null;
}

/** The Python of the kernels, and what was found in it. */
export interface KernelPython {
  readonly path: string | undefined;
  readonly checked: Checked | undefined;
  readonly advice: Advice | undefined;
}

export interface Overview {
  readonly server: ServerState;
  readonly jobs: readonly Job[];
  readonly target: Target | undefined;
  readonly python: KernelPython | undefined;
  readonly trusted: boolean;
}

export interface Shown {
  readonly text: string;
  readonly tooltip: string;
  readonly severity: "none" | "warning" | "error";
}

const LONGEST_STEP = 48;

/** The status-bar item; undefined where there is nothing to show. A problem is more urgent than a job. */
export function show({ server, jobs, target, trusted }: Overview): Shown | undefined {
  switch (server.kind) {
    case "waiting":
      return undefined;
    case "stopped":
      return { text: "$(circle-slash) TritonForge", tooltip: "The language server is not running.", severity: "none" };
    case "starting":
      return { text: "$(loading~spin) TritonForge", tooltip: "The language server is starting.", severity: "none" };
    case "problem":
      return { text: "$(error) TritonForge", tooltip: server.message, severity: "error" };
    case "ready":
      if (!trusted) {
        return { text: "$(shield) TritonForge", tooltip: "Restricted Mode: kernels are only analysed.", severity: "none" };
      }
      return jobs.length > 0 ? showJobs(jobs) : showTarget(target);
  }
}

function showTarget(target: Target | undefined): Shown {
  if (target === undefined) {
    return { text: "$(zap) TritonForge", tooltip: "The language server is running.", severity: "none" };
  }
  const name = target.gpu ?? target.target;
  if (target.problem) {
    return { text: `$(warning) TritonForge: ${name}`, tooltip: target.problem, severity: "warning" };
  }
  const where = target.text ?? (target.kind === "offline" ? `${target.target} (no GPU is used)` : target.target);
  return { text: `$(zap) TritonForge: ${name}`, tooltip: `Kernels run on ${where}.`, severity: "none" };
}

function showJobs(jobs: readonly Job[]): Shown {
  const steps = jobs.map(({ title, message }) => (message ? `${title}: ${message}` : title));
  const [first = ""] = steps;
  const more = jobs.length > 1 ? ` (+${jobs.length - 1})` : "";
  return {
    text: `$(sync~spin) ${shorten(first)}${more}`,
    tooltip: steps.join("\n"),
    severity: "none",
  };
}

function shorten(step: string): string {
  const points = Array.from(step);
  return points.length > LONGEST_STEP ? points.slice(0, LONGEST_STEP - 1).join("").trimEnd() + "…" : step;
}
