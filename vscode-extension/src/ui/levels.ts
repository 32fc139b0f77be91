export type Level = "error" | "warn" | "info" | "debug";

const LEVELS: Readonly<Record<string, Level>> = {
  CRITICAL: "error",
  ERROR: "error",
  WARNING: "warn",
  INFO: "info",
  DEBUG: "debug",
};

/** Reads a stream of the server's log: a line without a level belongs to the one before it, as tracebacks do. */
export class LogLines {
  private last: Level = "info";

  /** The level and the text of a line; the channel writes the time itself. */
  read(line: string): { readonly level: Level; readonly text: string } {
    const found = /^\d{4}-\d\d-\d\d [\d:,.]+ ([A-Z]+) (.*)$/.exec(line);
    const level = LEVELS[found?.[1] ?? ""];
    if (found === null || level === undefined) {
      return { level: this.last, text: line };
    }
    this.last = level;
    return { level, text: found[2] ?? "" };
  }
}
