/** Where a suggestion is shown: `tritonforge-suggestion:/path/of/file.py?uri=…&kernel=…&suggestion=…`. */
export const SCHEME = "tritonforge-suggestion";

/** A suggestion for a kernel, as commands of docs/editor.md take it. */
export interface SuggestionId {
  readonly uri: string;
  readonly kernel: string;
  readonly suggestion: string;
}

/** The answer of `tritonforge.previewSuggestion`. */
export interface Preview extends SuggestionId {
  readonly title: string;
  readonly gain: string;
  readonly summary: string;
  readonly text: string | null;
}

export function isSuggestion(uri: string): boolean {
  return uri.startsWith(`${SCHEME}:`);
}

/** The query of a suggestion's URI. */
export function format({ uri, kernel, suggestion }: SuggestionId): string {
  return new URLSearchParams({ uri, kernel, suggestion }).toString();
}

/** What a suggestion's URI, or the query of one, names; undefined where it names none. */
export function parse(query: string): SuggestionId | undefined {
  const fields = new URLSearchParams(query.slice(query.indexOf("?") + 1));
  const [uri, kernel, suggestion] = ["uri", "kernel", "suggestion"].map((name) => fields.get(name) ?? "");
  return uri && kernel && suggestion ? { uri, kernel, suggestion } : undefined;
}

/** The title of the diff editor, with the numbers in it. */
export function diffTitle({ uri, kernel, summary }: Preview): string {
  return `${decodeURIComponent(uri.split("/").at(-1) ?? "")} · ${kernel}: ${summary}`;
}
