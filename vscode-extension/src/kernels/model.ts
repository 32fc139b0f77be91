/** The rows of `tritonforge.listKernels` (docs/editor.md), and how the Kernels view words them. */

export interface Known {
  readonly timeUs: number | null;
  readonly time: string;
  readonly provenance: string;
  readonly spread: string;
  readonly fraction: number | null;
  readonly bound: string;
  readonly bottleneck: string;
  readonly reason: string;
  readonly error: string;
  readonly launch: string;
  readonly target: string;
  readonly stale: boolean;
  readonly at: string | null;
}

export interface Position {
  readonly line: number;
  readonly character: number;
}

export interface Row {
  readonly uri: string;
  readonly file: string;
  /** The cell of a notebook that the range speaks of. */
  readonly cell?: string | null;
  readonly kernel: string;
  readonly range: { readonly start: Position; readonly end: Position };
  readonly launches: "known" | "unknown";
  readonly known: Known | null;
  readonly suggestion: { readonly suggestion: string; readonly title: string; readonly gain: string; readonly summary: string } | null;
  readonly job: { readonly jobId: string; readonly verb: string } | null;
}

export interface Listing {
  readonly kernels: readonly Row[];
  readonly complete: boolean;
}

export interface FileGroup {
  readonly uri: string;
  readonly file: string;
  readonly rows: readonly Row[];
}

/** The rows by file, in the order in which they came. */
export function groupByFile(rows: readonly Row[]): FileGroup[] {
  const groups = new Map<string, Row[]>();
  for (const row of rows) {
    const group = groups.get(row.uri);
    if (group === undefined) {
      groups.set(row.uri, [row]);
    } else {
      group.push(row);
    }
  }
  return [...groups.values()].map((group) => ({ uri: group[0]?.uri ?? "", file: group[0]?.file ?? "", rows: group }));
}

/** What stands behind a kernel's name: `148 µs predicted · 12 % of roofline · tile-too-small`. */
export function describeRow({ known, job, launches }: Row, trusted = true): string {
  if (job) {
    return `${job.verb} …`;
  }
  if (known === null && !trusted) {
    return ""; // what was recorded is not looked at
  }
  if (known === null) {
    return launches === "known" ? "not profiled yet" : "no launch known";
  }
  return [
    known.error ? "does not compile" : "",
    known.time && `${known.time} ${known.provenance}`,
    known.fraction === null ? "" : `${percent(known.fraction)} of roofline`,
    known.bottleneck,
    known.stale ? "stale" : "",
  ]
    .filter((part) => part !== "")
    .join(" · ");
}

/** The codicon of a row, and the theme colour it is drawn in. */
export function iconOf({ known, job, suggestion }: Row): { readonly id: string; readonly color?: string } {
  if (job) {
    return { id: "sync~spin" };
  }
  if (suggestion) {
    return { id: "lightbulb", color: "editorLightBulb.foreground" };
  }
  if (known === null) {
    return { id: "circle-outline", color: "disabledForeground" };
  }
  if (known.error) {
    return { id: "error", color: "list.errorForeground" };
  }
  if (known.stale) {
    return { id: "history", color: "disabledForeground" };
  }
  return known.bottleneck === "at-roofline" ? { id: "pass", color: "testing.iconPassed" } : { id: "dashboard" };
}

/** Words for `when` clauses of the view's menus: `kernel running`, `kernel idle suggestion`. */
export function contextOf({ job, suggestion }: Row): string {
  return `kernel ${job ? "running" : "idle"}${suggestion ? " suggestion" : ""}`;
}

/** What a screen reader says of a row. */
export function labelOf(row: Row, trusted = true): string {
  const better = row.suggestion ? `, ${row.suggestion.summary}` : "";
  const description = describeRow(row, trusted).replaceAll(" · ", ", ");
  return `${row.kernel}${description && `, ${description}`}${better}`;
}

export function percent(fraction: number): string {
  return `${Math.round(fraction * 100)} %`;
}
