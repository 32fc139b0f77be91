// The story: what a person sees and does, one function a step. A step's result is what the test asserts on.
import { readFileSync } from "node:fs";

const TOAST = ".notifications-toasts .notification-list-item";
const LENS = ".codelens-decoration";

/** [name, function] in order; each gets the page and the file's path, and leaves the page as the next expects it. */
export const steps = [
  ["start", start],
  ["squiggle", squiggle],
  ["lens", lens],
  ["hover", hover],
  ["ask", ask],
  ["progress", progress],
  ["suggestion", suggestion],
  ["hover_after", hover],
  ["code_action", codeAction],
  ["apply", apply],
  ["undo", undo],
];

async function start({ page }) {
  const item = page.locator('.statusbar-item[id*="tritonforge.status"]');
  await item.waitFor();
  const states = new Set();
  for (;;) {
    const text = (await item.innerText()).trim();
    states.add(text);
    if (/TritonForge: \w/.test(text)) {
      return { states: [...states] };
    }
    await page.waitForTimeout(50);
  }
}

async function squiggle({ page }) {
  const squiggles = page.locator(".squiggly-error, .squiggly-warning, .squiggly-info, .squiggly-hint");
  await squiggles.first().waitFor();
  return { lines: await linesUnder(page, squiggles) };
}

async function lens({ page }) {
  const line = page.locator(LENS).filter({ hasText: "Optimize" }).first();
  await line.waitFor();
  return { text: (await line.innerText()).replaceAll("\u00a0", " ") };
}

async function hover({ page }) {
  await page.mouse.move(640, 60); // a hover opens when the mouse comes to rest
  const box = await kernelName(page).boundingBox();
  const middle = [box.x + box.width / 2, box.y + box.height / 2];
  await page.mouse.move(middle[0] - 8, middle[1]);
  await page.mouse.move(...middle);
  const content = page.locator(".monaco-hover:not(.hidden) .monaco-hover-content", { hasText: "matmul_kernel" });
  await content.waitFor();
  return { text: await content.innerText(), tables: await content.locator("table").count() };
}

function kernelName(page) {
  return page.locator(".view-line", { hasText: "def matmul_kernel" }).locator("span", { hasText: "matmul_kernel" }).last();
}

async function ask({ page }) {
  await page.mouse.move(640, 700);
  await page.keyboard.press("Escape");
  await page.locator(`${LENS} a`, { hasText: "Optimize" }).first().click();
  const question = page.locator(TOAST, { hasText: "Run the main block" });
  await question.waitFor();
  await page.mouse.move(640, 740);
  return { text: await question.innerText() };
}

async function progress({ page }) {
  await page.locator(TOAST, { hasText: "Run the main block" }).getByRole("button", { name: "Run", exact: true }).click();
  const toast = page.locator(TOAST, { hasText: "Optimize matmul_kernel" }).filter({ hasText: "Cancel" });
  await toast.waitFor();
  await page.waitForTimeout(2500); // far enough in for a step to be named
  const status = await page.locator('.statusbar-item[id*="tritonforge.status"]').innerText();
  const text = (await toast.count()) > 0 ? await toast.first().innerText() : "ended before it was looked at";
  return { text, status, cancel: text.includes("Cancel") };
}

async function suggestion({ page }) {
  const offer = page.locator(TOAST).filter({ has: page.getByRole("button", { name: "Apply", exact: true }) });
  await offer.waitFor({ timeout: 180_000 });
  const line = page.locator(LENS).filter({ hasText: "Apply" }).first();
  await line.waitFor();
  const warnings = page.locator(".squiggly-warning");
  await warnings.first().waitFor();
  const problems = await page.locator("#status\\.problems [aria-label]").first().getAttribute("aria-label");
  return {
    text: await offer.innerText(),
    lens: (await line.innerText()).replaceAll("\u00a0", " "),
    lines: await linesUnder(page, warnings),
    problems,
  };
}

/** The text of the line that each squiggle is drawn under. */
async function linesUnder(page, squiggles) {
  const lines = [];
  for (const line of await page.locator(".view-line").all()) {
    lines.push({ box: await line.boundingBox(), text: (await line.innerText()).replaceAll("\u00a0", " ").trim() });
  }
  const under = [];
  for (const squiggle of await squiggles.all()) {
    const { y, height } = await squiggle.boundingBox();
    const middle = y + height / 2;
    under.push(lines.find(({ box }) => box && box.y <= middle && middle < box.y + box.height)?.text);
  }
  return under;
}

async function codeAction({ page }) {
  await page.mouse.move(640, 60); // closes the hover; Escape would close the toast too
  await kernelName(page).click();
  await page.keyboard.press("Control+.");
  const rows = page.locator(".action-widget .monaco-list-row");
  await rows.filter({ hasText: "faster" }).first().waitFor();
  return { titles: await rows.allInnerTexts() };
}

async function apply({ page, path }) {
  const before = readFileSync(path, "utf8");
  await page.keyboard.press("Escape");
  await page.locator(TOAST).getByRole("button", { name: "Apply", exact: true }).click();
  const after = await saved(page, path, (text) => text !== before);
  return { before, after };
}

async function undo({ page, path }) {
  const before = readFileSync(path, "utf8");
  await kernelName(page).click();
  await page.keyboard.press("Control+z");
  const after = await saved(page, path, (text) => text !== before);
  return { after };
}

/** Saves until the file on disk satisfies the condition (an edit by the server arrives when it arrives). */
async function saved(page, path, condition) {
  for (let attempt = 0; attempt < 100; attempt += 1) {
    await page.keyboard.press("Control+s");
    await page.waitForTimeout(200);
    const text = readFileSync(path, "utf8");
    if (condition(text)) {
      return text;
    }
  }
  throw new Error(`${path} was not changed.`);
}
