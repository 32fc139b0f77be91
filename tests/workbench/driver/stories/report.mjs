// The kernel's report beside its source.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { clickLens, command, plain, texts, tidy, until } from "../screen.mjs";

export const steps = [
  ["report", open],
  ["report_line", line],
  ["report_light", (context) => themed(context, "Default Light Modern", "vs")],
  ["report_contrast", (context) => themed(context, "Default High Contrast", "hc-black")],
  ["report_dark", (context) => themed(context, "Default Dark Modern", "vs-dark")],
  ["report_export", save],
];

/** The page in the webview; it is another one after a refresh, so it is looked for at each step. */
function inside(page) {
  return page.frameLocator("iframe.webview").frameLocator("iframe#active-frame");
}

async function open({ page }) {
  await tidy(page);
  await clickLens(page, "Report");
  const tab = page.locator(".tab", { hasText: "Report: matmul_kernel" });
  await tab.waitFor();
  // The compiler's listings are read in the background, and the page is loaded again with them.
  return until("the report with listings", async () => {
    const report = inside(page);
    const tabs = await texts(report.getByRole("tab"));
    if (!tabs.includes("SASS")) {
      return undefined;
    }
    return {
      tab: plain(await tab.innerText()),
      tabs,
      title: plain(await report.getByRole("heading", { level: 1 }).first().innerText()),
      headings: await texts(report.getByRole("heading", { level: 2 })),
      figures: await report.getByRole("img").evaluateAll((all) => all.map((one) => one.getAttribute("aria-label") ?? one.querySelector("title")?.textContent)),
      buttons: await texts(report.getByRole("toolbar", { name: "Actions" }).getByRole("button")),
    };
  }, 90_000);
}

async function line({ page }) {
  return until("a marked line", async () => {
    const report = inside(page);
    const source = report.getByRole("listbox", { name: /^Source of/ }).first();
    const row = source.getByRole("option", { name: /tl\.dot/ }).first();
    const number = await row.getAttribute("data-l", { timeout: 5000 });
    await row.click({ timeout: 5000 });
    await report.getByRole("tab", { name: "SASS" }).first().click({ timeout: 5000 });
    const status = plain(await report.getByRole("status").first().innerText({ timeout: 5000 }));
    const marked = await texts(report.locator("[role=tabpanel]:not([hidden]) .mark .t"));
    const editor = page.locator(".editor-instance .monaco-editor").first();
    const shown = plain(await editor.locator(".line-numbers.active-line-number").first().innerText({ timeout: 5000 }));
    return marked.length > 0 && shown === number ? { number, status, marked, shown } : undefined;
  });
}

/** Chooses a theme in the settings of the workspace; returns what the page and the editor look like in it. */
async function themed({ page, folder }, theme, kind) {
  mkdirSync(join(folder, ".vscode"), { recursive: true });
  writeFileSync(join(folder, ".vscode", "settings.json"), JSON.stringify({ "workbench.colorTheme": theme }));
  await page.locator(`.monaco-workbench.${kind}`).waitFor();
  const named = { vs: "vscode-light", "vs-dark": "vscode-dark", "hc-black": "vscode-high-contrast" }[kind];
  return until(`the report in ${theme}`, async () => {
    const body = inside(page).locator(`body.${named}`);
    const heading = body.getByRole("heading", { level: 1 }).first();
    const colour = await heading.evaluate((one) => getComputedStyle(one).color, undefined, { timeout: 5000 });
    return { background: await body.evaluate((one) => getComputedStyle(one).backgroundColor), colour };
  });
}

async function save({ page, folder }) {
  const file = join(folder, "matmul_kernel-report.html");
  await until("a name to save under", async () => {
    await inside(page).locator("button[data-do=export]").first().click({ timeout: 5000 });
    await page.locator(".quick-input-widget input.input").waitFor({ timeout: 10_000 });
    return true;
  });
  const proposed = await until("the proposed name", async () => {
    const name = await page.locator(".quick-input-widget input.input").inputValue();
    return name.endsWith(".html") ? name : undefined;
  });
  await page.keyboard.press("Enter");
  await page.locator(".quick-input-widget").waitFor({ state: "hidden" });
  const text = await until(`the whole of ${file}`, () => {
    const written = existsSync(file) ? readFileSync(file, "utf8") : "";
    return written.trimEnd().endsWith("</html>") ? written : undefined; // it is there before it is written
  });
  await command(page, "View: Close All Editors in Group");
  return { proposed, text };
}
