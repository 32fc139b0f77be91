// A person looks at a kernel, records its launches, profiles and optimises it, applies what is offered, and takes it back.
import { readFileSync } from "node:fs";

import {
  aside, button, clickLens, command, hover, lensLine, lensText, nameOf, notedStatus, noteStatus, plain, saved, squiggles,
  statusIs, texts, tidy, TOAST, toast, until,
} from "../screen.mjs";

const KERNEL = "matmul_kernel";

export const steps = [
  ["squiggle", async ({ page }) => ({ lines: await squiggles(page) })],
  ["lens", async ({ page }) => ({ text: await lensText(page, "Optimize") })],
  ["hover", ({ page }) => hover(page, KERNEL)],
  ["ask", ask],
  ["record", record],
  ["profile", profile],
  ["progress", progress],
  ["cancel", cancel],
  ["suggestion", suggestion],
  ["hover_after", ({ page }) => hover(page, KERNEL)],
  ["code_action", codeAction],
  ["diff", diff],
  ["apply", apply],
  ["undo", undo],
];

async function ask({ page }) {
  await aside(page);
  await page.keyboard.press("Escape");
  await clickLens(page, "Optimize");
  const question = toast(page, "Run the main block");
  await question.waitFor();
  return { text: plain(await question.innerText()) };
}

async function record({ page }) {
  await tidy(page); // the question is closed: nothing is run
  const unanswered = await lensText(page, "TritonForge: Profile");
  await nameOf(page, KERNEL).click();
  await command(page, "TritonForge: Record Launches");
  // Launches that are known are compiled in the background.
  return { unanswered, lens: await lensText(page, "Report", 120_000) };
}

async function profile({ page }) {
  await noteStatus(page);
  await clickLens(page, "Profile");
  const states = await until("profiling to begin and to end", async () => {
    const seen = await notedStatus(page);
    const begun = seen.findIndex((text) => text.includes(`Profile ${KERNEL}`));
    return begun >= 0 && seen.slice(begun).includes("TritonForge: offline") ? seen : undefined;
  }, 120_000);
  return {
    states,
    lens: await lensText(page, "of roofline"),
    questions: await toast(page, "Run the main block").count(),
    hints: await texts(page.locator(".view-line", { hasText: "% predicted" })),
  };
}

async function progress({ page }) {
  await clickLens(page, "Optimize");
  const running = toast(page, `Optimize ${KERNEL}`).filter({ hasText: "Cancel" });
  // Its title comes at once, its first step when the job's process has started.
  await running.filter({ hasText: new RegExp(`${KERNEL}: \\w`) }).waitFor({ timeout: 60_000 });
  const status = await statusIs(page, `Optimize ${KERNEL}: `, 60_000);
  return { text: plain(await running.innerText()), status, lens: await lensText(page, "optimizing") };
}

async function cancel({ page }) {
  const running = toast(page, `Optimize ${KERNEL}`).filter({ hasText: "Cancel" });
  await button(running, "Cancel").click();
  await running.waitFor({ state: "hidden", timeout: 60_000 });
  const status = await statusIs(page, "TritonForge: offline", 60_000);
  return { status, lens: await lensText(page, "Optimize") };
}

async function suggestion({ page }) {
  await tidy(page);
  await clickLens(page, "Optimize");
  const offer = page.locator(TOAST).filter({ has: button(page, "Show Diff") });
  await offer.waitFor({ timeout: 240_000 });
  const text = plain(await offer.innerText());
  return {
    text,
    lens: await lensText(page, "Apply"),
    lines: await squiggles(page, ".squiggly-warning"),
    problems: await page.locator("#status\\.problems [aria-label]").first().getAttribute("aria-label"),
  };
}

async function codeAction({ page }) {
  await aside(page); // closes the hover
  await nameOf(page, KERNEL).click();
  await page.keyboard.press("Control+.");
  const rows = page.locator(".action-widget .monaco-list-row");
  await rows.filter({ hasText: "faster" }).first().waitFor();
  return { titles: await texts(rows) };
}

async function diff({ page }) {
  await page.keyboard.press("Escape");
  await tidy(page);
  await clickLens(page, "Show Diff");
  const editor = page.locator(".monaco-diff-editor").first();
  await editor.locator(".line-insert").first().waitFor();
  return {
    tab: plain(await page.locator(".tab.active").innerText()),
    removed: await texts(editor.locator(".editor.original .view-line")),
    added: await texts(editor.locator(".editor.modified .view-line")),
    buttons: await page.locator(".editor-actions .action-label[aria-label]").evaluateAll((all) => all.map((one) => one.ariaLabel)),
  };
}

async function apply({ page, path }) {
  const before = readFileSync(path, "utf8");
  await page.locator(".editor-actions .action-label[aria-label^='Apply Suggestion']").click();
  await page.locator(".monaco-diff-editor").first().waitFor({ state: "hidden" });
  const after = await saved(page, path, (text) => text !== before);
  return { before, after, tabs: await texts(page.locator(".tab")) };
}

async function undo({ page, path }) {
  const before = readFileSync(path, "utf8");
  await nameOf(page, KERNEL).click();
  await page.keyboard.press("Control+z");
  const after = await saved(page, path, (text) => text !== before);
  await lensLine(page, "Apply").waitFor();
  return { after };
}
