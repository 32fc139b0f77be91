/** A kernel of a report, as `tritonforge.showReport` names it. */
export interface ReportedKernel {
  readonly kernel: string;
  readonly file: string;
  readonly uri: string;
}

/** What `tritonforge.showReport` answers (docs/editor.md). */
export interface Answer {
  readonly title: string;
  /** Null when the page is the one that was `known` when it was asked for. */
  readonly html: string | null;
  readonly version: string;
  readonly uri: string;
  readonly kernel: string | null;
  readonly kernels: readonly ReportedKernel[];
}

/** What the page remembers, and what a report is opened again with after the window was reloaded. */
export interface Memory {
  readonly uri: string;
  readonly kernel?: string;
}

export function memoryOf(state: unknown): Memory | undefined {
  const { uri, kernel } = (state ?? {}) as { uri?: unknown; kernel?: unknown };
  if (typeof uri !== "string" || uri === "") {
    return undefined;
  }
  return typeof kernel === "string" && kernel !== "" ? { uri, kernel } : { uri };
}

/** What the page posts. */
export type Message =
  | { readonly type: "reveal"; readonly kernel: number; readonly line: number; readonly text: string; readonly focus: boolean }
  | { readonly type: "profile" | "optimize" | "apply" | "export"; readonly kernel: number };

/** Reads what the page posted; undefined for anything else, whoever sent it. */
export function messageOf(posted: unknown): Message | undefined {
  const { type, kernel, line, text, focus } = (posted ?? {}) as Record<string, unknown>;
  if (typeof kernel !== "number" || !Number.isInteger(kernel) || kernel < 0) {
    return undefined;
  }
  switch (type) {
    case "profile":
    case "optimize":
    case "apply":
    case "export":
      return { type, kernel };
    case "reveal":
      return typeof line === "number" && Number.isInteger(line) && line >= 1 && typeof text === "string"
        ? { type, kernel, line, text, focus: focus === true }
        : undefined;
    default:
      return undefined;
  }
}

/** A page that says why there is no report; it can neither run nor load anything. */
export function problemPage(sentence: string): string {
  const escaped = sentence.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`);
  return (
    '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">' +
    `<meta http-equiv="Content-Security-Policy" content="default-src 'none'"><title>Kernel Report</title></head>` +
    `<body><main><h1>Kernel Report</h1><p role="alert">${escaped}</p></main></body></html>`
  );
}
