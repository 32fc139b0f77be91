// All kernels of the workspace in one view.
import { readFileSync } from "node:fs";

import {
  aside, button, clickLens, command, lensLine, lensText, openAtTop, plain, statusItem, texts, tidy, toast,
  until,
} from "../screen.mjs";

export const steps = [
  ["menu", menu],
  ["kernels", kernels],
  ["kernels_profile", profile],
  ["discard", discard],
];

async function menu({ page }) {
  await tidy(page);
  await statusItem(page).click();
  const rows = page.locator(".quick-input-list .monaco-list-row");
  await rows.filter({ hasText: "Show Kernels" }).waitFor();
  return { rows: await texts(rows) };
}

function rowsOf(page) {
  return page.locator(".part.sidebar .monaco-list-row");
}

async function kernels({ page }) {
  await page.locator(".quick-input-list .monaco-list-row", { hasText: "Show Kernels" }).click();
  await rowsOf(page).filter({ hasText: "matmul_kernel" }).filter({ hasText: "predicted" }).waitFor();
  const { x, y, width } = await page.locator(".part.sidebar").boundingBox();
  await page.mouse.move(x + width, y + 300); // wider, to read the rows
  await page.mouse.down();
  await page.mouse.move(x + 570, y + 300, { steps: 5 });
  await page.mouse.up();
  await aside(page);
  return { rows: await texts(rowsOf(page)), labels: await labels(page) };
}

async function profile({ page }) {
  const row = rowsOf(page).filter({ hasText: "row_softmax_kernel" });
  await row.hover();
  await row.locator(".actions .action-label[aria-label^='Profile']").click();
  const question = toast(page, "row_softmax_kernel").filter({ has: button(page, "Run") });
  await question.waitFor();
  const asked = plain(await question.innerText());
  await button(question, "Run").click();
  await row.filter({ hasText: "of roofline" }).waitFor({ timeout: 90_000 });
  return { asked, row: plain(await row.innerText()) };
}

async function discard({ page, path }) {
  await tidy(page);
  await command(page, "View: Toggle Primary Side Bar Visibility");
  await openAtTop(page, "matmul.py");
  await until("the diff of the suggestion", async () => {
    await clickLens(page, "Show Diff", 8000); // lenses that are just being drawn anew take no click
    await page.locator(".monaco-diff-editor").first().waitFor({ timeout: 20_000 });
    return true;
  });
  await page.locator(".editor-actions .action-label[aria-label^='Discard Suggestion']").click();
  await page.locator(".monaco-diff-editor").first().waitFor({ state: "hidden" });
  await lensLine(page, "Apply").waitFor({ state: "hidden" });
  return { lens: await lensText(page, "Optimize"), text: readFileSync(path, "utf8") };
}

function labels(page) {
  return rowsOf(page).evaluateAll((all) => all.map((one) => one.ariaLabel));
}
