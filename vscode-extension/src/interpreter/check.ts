import type { Run } from "../environment/run.js";

/** What is installed in a Python; null for what is not. */
export interface Checked {
  readonly python: string;
  readonly torch: string | null;
  readonly triton: string | null;
}

// Nothing is imported: that would take seconds. The versions stand in the packages' metadata.
const LOOK = `
import importlib.metadata, importlib.util, json, platform
def version(name):
    if importlib.util.find_spec(name) is None:
        return None
    for package in (name, "triton-windows", "pytorch-triton", "pytorch-triton-rocm"):
        try:
            return importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            if name == "torch":
                break
    return "of unknown version"
print(json.dumps({"python": platform.python_version(), "torch": version("torch"), "triton": version("triton")}))
`;

/** Looks for torch and triton in the Python at `path`; undefined where it does not start. */
export async function check(path: string, run: Run, cwd: string): Promise<Checked | undefined> {
  // Started outside the workspace: a folder of it called torch is not the package.
  const { code, output } = await run(path, ["-c", LOOK], { milliseconds: 15_000, cwd });
  if (code !== 0) {
    return undefined;
  }
  try {
    return JSON.parse(output.trim().split("\n").at(-1) ?? "") as Checked;
  } catch {
    return undefined;
  }
}

/** `Python 3.12.4 · torch 2.9.0 · no triton` */
export function describe({ python, torch, triton }: Checked): string {
  return [`Python ${python}`, torch ? `torch ${torch}` : "no torch", triton ? `triton ${triton}` : "no triton"].join(" · ");
}
