/** Tables for tritonforge.toml, with what is the user's to fill in. */

export interface Template {
  readonly label: string;
  readonly detail: string;
  /** The table's text; `{name}` stands where a name is wanted that the file does not use yet. */
  readonly text: string;
  readonly name: string;
}

export const TEMPLATES: readonly Template[] = [
  {
    label: "$(package) A container",
    detail: "docker or podman on this machine; works on macOS and Windows",
    name: "container",
    text: `[targets.{name}]
command = ["docker", "run", "-i", "--rm", "IMAGE"]  # an image with torch and triton; with a GPU add "--gpus", "all"
arch = "sm_90"  # compile for this GPU and verify without one; remove this line to measure on a GPU
`,
  },
  {
    label: "$(remote) Another machine",
    detail: "over ssh; nothing has to be installed there but torch and triton",
    name: "lab",
    text: `[targets.{name}]
command = ["ssh", "-T", "HOST"]
python = "~/venv/bin/python"  # the Python there that has torch and triton
`,
  },
  {
    label: "$(circuit-board) Another architecture",
    detail: "compile and verify here for a GPU that this machine does not have",
    name: "b200",
    text: `[targets.{name}]
arch = "sm_100"  # sm_80 … sm_120, gfx90a, gfx942
`,
  },
];

/** The text of tritonforge.toml with a template's table at its end. */
export function withTarget(toml: string, template: Template): string {
  let name = template.name;
  for (let n = 2; new RegExp(`^\\[targets\\.${name}\\]`, "m").test(toml); n += 1) {
    name = `${template.name}-${n}`;
  }
  const before = toml === "" || toml.endsWith("\n") ? toml : `${toml}\n`;
  return `${before}${before === "" ? "" : "\n"}${template.text.replace("{name}", name)}`;
}
