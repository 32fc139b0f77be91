// A folder is opened that is not trusted: its source is read, nothing of it runs. Then it is trusted.
import { aside, command, hover, lensText, offered, plain, openAtTop, squiggles, statusIs, statusItem, texts } from "../screen.mjs";

export const steps = [
  ["restricted", restricted],
  ["trusted", trusted],
];

async function restricted({ page, workbench }) {
  const item = statusItem(page).locator('[aria-label*="Restricted Mode"]').first();
  await item.waitFor();
  const label = await item.getAttribute("aria-label");
  const lines = await squiggles(page);
  const said = await hover(page, "matmul_kernel");
  await aside(page);
  await command(page, "View: Show TritonForge");
  const view = page.locator(".pane-body", { hasText: "Restricted Mode" });
  await view.waitFor();
  await view.locator(".monaco-list-row", { hasText: "matmul_kernel" }).waitFor();
  const servers = workbench.processes("tritonforge serve");
  return {
    label,
    lines,
    hover: said.text,
    lenses: await page.locator(".codelens-decoration a").count(),
    view: plain(await view.innerText()),
    commands: await offered(page, "TritonForge: "),
    servers: servers.length,
    workers: servers.flatMap(({ pid }) => workbench.below(pid)),
    bar: await texts(page.locator(".statusbar-item", { hasText: "Restricted Mode" })),
  };
}

async function trusted({ page, file }) {
  await command(page, "View: Toggle Primary Side Bar Visibility");
  await command(page, "Workspaces: Manage Workspace Trust");
  await page.locator(".workspace-trust-editor").getByRole("button", { name: "Trust", exact: true }).click();
  const editor = page.locator(".workspace-trust-editor");
  await editor.filter({ hasText: "You trust this folder" }).waitFor();
  const status = await statusIs(page, /TritonForge: \w/);
  await openAtTop(page, file);
  await command(page, "View: Close Other Editors in Group");
  return { status, lens: await lensText(page, "Optimize") };
}
