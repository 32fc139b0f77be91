/** Why an environment could not be made, as one or two sentences for the user: what is missing, and the mend. */
export class SetupFailed extends Error {}

/** The user did not want it now; nobody has to be told. */
export class SetupCancelled extends SetupFailed {}

const TABLE: readonly (readonly [RegExp, (match: RegExpExecArray, python: string) => string])[] = [
  [
    /No module named '?(venv|ensurepip)|ensurepip is not available/,
    (_, python) => `${python} cannot make environments: ${venvMend(python)}`,
  ],
  [/No module named '?pip/, (_, python) => `${python} made an environment without pip: ${venvMend(python)}`],
  [/No space left on device/, () => "The disk is full. Free about 200 MB."],
  [
    /(?:Permission denied|Read-only file system): '?([^'\n]*)/,
    (match) => `${match[1] || "The folder of the extension"} cannot be written. Allow it.`,
  ],
  [
    /CERTIFICATE_VERIFY_FAILED|SSLError|certificate verify failed/i,
    () => "pip does not trust the package index's certificate. Name the right one: pip config set global.cert FILE.",
  ],
  [
    /407 Proxy Authentication|ProxyError|Cannot connect to proxy/i,
    () => "pip did not get through the proxy. Check HTTPS_PROXY, or pip config set global.proxy URL.",
  ],
  [
    /name resolution|Name or service not known|nodename nor servname|getaddrinfo failed|NewConnectionError|ConnectTimeout|Connection refused|Network is unreachable|Max retries exceeded|Read timed out/i,
    () =>
      "pip reached no package index. Connect to the network, or name an index: pip config set global.index-url URL.",
  ],
  [
    /Could not find a version that satisfies the requirement (\S+)|No matching distribution found for (\S+)/,
    (match) => `The package index has no ${match[1] ?? match[2] ?? "package"} that fits. Use one that mirrors PyPI.`,
  ],
  [/Failed (?:to build|building wheel)[^\n]*?(?:for )?'?([\w.-]+)'?\s*$/m, (match) => `${match[1] ?? "A package"} has no ready-made wheel for this Python. Use Python 3.11 to 3.13.`],
];

/** The sentence for what venv or pip printed when it failed. */
export function explain(output: string, python: string): string {
  for (const [pattern, sentence] of TABLE) {
    const match = pattern.exec(output);
    if (match) {
      return sentence(match, python);
    }
  }
  const lines = output.split(/\r?\n/).filter((line) => line.trim() !== "");
  const last = lines.findLast((line) => /^\s*error\b/i.test(line)) ?? lines.at(-1);
  const said = last?.replace(/^\s*error:?\s*/i, "").trim().slice(0, 300);
  return said ? `pip failed: ${said}${/[.!?]$/.test(said) ? "" : "."}` : "pip failed without a word. See the output.";
}

function venvMend(python: string): string {
  const minor = /python(3\.\d+)/.exec(python)?.[1] ?? "3";
  return `on Debian and Ubuntu, sudo apt install python${minor}-venv.`;
}
