/** What the session is doing, as the status bar shows it. */
export type ServerState =
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

export interface Shown {
  readonly text: string;
  readonly tooltip: string;
  readonly severity: "none" | "error";
}

const LONGEST_STEP = 48;

/** The status-bar item for a state. A problem is more urgent than a job, a job than the target's name. */
export function show(server: ServerState, jobs: readonly Job[], target: string | undefined): Shown {
  switch (server.kind) {
    case "stopped":
      return { text: "$(circle-slash) TritonForge", tooltip: "The language server is not running.", severity: "none" };
    case "starting":
      return { text: "$(loading~spin) TritonForge", tooltip: "The language server is starting.", severity: "none" };
    case "problem":
      return { text: "$(error) TritonForge", tooltip: server.message, severity: "error" };
    case "ready":
      return jobs.length > 0 ? showJobs(jobs) : showTarget(target);
  }
}

function showTarget(target: string | undefined): Shown {
  return target === undefined
    ? { text: "$(zap) TritonForge", tooltip: "The language server is running.", severity: "none" }
    : { text: `$(zap) TritonForge: ${target}`, tooltip: `Kernels run on the target “${target}”.`, severity: "none" };
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
