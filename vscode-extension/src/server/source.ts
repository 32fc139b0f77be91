/** How the language server is started. */
export interface ServerCommand {
  readonly command: string;
  readonly args: readonly string[];
  /** Where it was found; said in the output channel. */
  readonly source: string;
}

/** What a source may look at. */
export interface Surroundings {
  /** `tritonforge.server`, empty where it is not set. */
  readonly configured: readonly string[];
  /** The interpreter of the user's kernels, where one is known. */
  readonly interpreter: string | undefined;
  readonly trusted: boolean;
  readonly workspaceFolders: readonly string[];
}

/** One place where the server may be installed; undefined where it is not. Sources are asked in order. */
export type ServerSource = (surroundings: Surroundings) => Promise<ServerCommand | undefined>;

export async function findServer(
  sources: readonly ServerSource[],
  surroundings: Surroundings,
): Promise<ServerCommand | undefined> {
  for (const source of sources) {
    const found = await source(surroundings);
    if (found !== undefined) {
      return found;
    }
  }
  return undefined;
}
