// What of the workbench the stories look at and click on.
import { readFileSync } from "node:fs";

export const TOAST = ".notifications-toasts .notification-list-item";
const LENS = ".codelens-decoration";
const SQUIGGLES = ".squiggly-error, .squiggly-warning, .squiggly-info, .squiggly-hint";

/** Text as a person reads it: the workbench draws spaces that do not break, and puts parts on lines of their own. */
export function plain(text) {
  return text.replaceAll("\u00a0", " ").replace(/\s+/g, " ").trim();
}

export async function texts(locator) {
  return (await locator.allInnerTexts()).map(plain);
}

export function statusItem(page) {
  return page.locator('.statusbar-item[id*="tritonforge.status"]');
}

/** Waits until the status-bar item's text is one of these, and returns it. */
export async function statusIs(page, pattern, timeout) {
  const item = statusItem(page).filter({ hasText: pattern });
  await item.waitFor({ timeout });
  return plain(await item.innerText());
}

/** Begins to note every text that the status-bar item shows, however shortly. */
export async function noteStatus(page) {
  await page.evaluate(() => {
    const seen = [];
    const note = () => {
      const text = document.querySelector('.statusbar-item[id*="tritonforge.status"]')?.textContent.trim();
      if (text && text !== seen.at(-1)) {
        seen.push(text);
      }
    };
    note();
    const everything = { attributes: true, characterData: true, childList: true, subtree: true };
    new MutationObserver(note).observe(document.querySelector(".part.statusbar"), everything);
    window.statusTexts = seen;
  });
}

/** What the status-bar item has shown since then. */
export function notedStatus(page) {
  return page.evaluate(() => window.statusTexts);
}

export function toast(page, text) {
  return page.locator(TOAST, { hasText: text });
}

export function button(within, name) {
  return within.getByRole("button", { name, exact: true });
}

/** The line of lenses that says something. */
export function lensLine(page, text) {
  return page.locator(LENS).filter({ hasText: text }).first();
}

export async function lensText(page, text, timeout) {
  const line = lensLine(page, text);
  await line.waitFor({ timeout });
  return plain(await line.innerText());
}

/** Lenses are drawn anew when something is known anew; Playwright finds the link again until the click succeeds. */
export async function clickLens(page, name, timeout) {
  await page.locator(`${LENS} a`, { hasText: name }).first().click({ timeout });
}

/** Runs a command by its title in the palette. */
export async function command(page, title) {
  await pick(page, "F1", `>${title}`, title);
}

/** Opens a file of the workspace by its name. */
export async function quickOpen(page, name) {
  await pick(page, "Control+p", name, name);
  await page.locator(".tab.active", { hasText: name }).waitFor();
}

/** Opens a file and scrolls to its beginning. */
export async function openAtTop(page, name) {
  await quickOpen(page, name);
  await until(`the first line of ${name}`, async () => {
    await page.keyboard.press("Control+Home");
    const first = page.locator(".editor-group-container.active .line-numbers.active-line-number", { hasText: /^1$/ });
    await first.waitFor({ timeout: 2000 });
    return true;
  });
}

async function pick(page, key, text, label) {
  // The list is drawn before it is filtered: what was searched for stands first in the end.
  const rows = await search(page, key, text);
  await rows.and(page.locator('[data-index="0"]')).filter({ hasText: label }).click();
  await page.locator(".quick-input-widget").waitFor({ state: "hidden" });
  await aside(page); // what now lies under the mouse would show its tooltip
}

/** The commands that the palette offers for a text. */
export async function offered(page, text) {
  const rows = await search(page, "F1", `>${text}`);
  const found = await until(`nothing but ${text}`, async () => {
    const shown = await texts(rows);
    return shown.length > 0 && shown.every((row) => row.includes(text.trim())) ? shown : undefined;
  });
  await page.keyboard.press("Escape");
  await page.locator(".quick-input-widget").waitFor({ state: "hidden" });
  return found;
}

async function search(page, key, text) {
  const input = page.locator(".quick-input-widget input.input");
  await until(`what ${key} opens`, async () => {
    await page.keyboard.press(key); // a dialog that is just closing takes the key, or what is typed, with it
    await input.fill(text, { timeout: 3000 });
    return (await input.inputValue({ timeout: 1000 })) === text ? true : undefined;
  });
  return page.locator(".quick-input-list .monaco-list-row");
}

/** Puts the mouse where nothing is. */
export async function aside(page) {
  await page.mouse.move(220, 12);
}

/** Puts the mouse where nothing is, and closes toasts and whatever has the keyboard. */
export async function tidy(page) {
  await aside(page);
  await page.keyboard.press("Escape");
  await command(page, "Notifications: Clear All Notifications");
  await page.locator(TOAST).first().waitFor({ state: "hidden" });
}

/** The squiggles in sight, and the text of the line that each is drawn under. */
export async function squiggles(page, selector = SQUIGGLES) {
  return until("squiggles", async () => {
    const found = await page.locator(selector).all();
    const lines = [];
    for (const line of await page.locator(".view-line").all()) {
      lines.push({ box: await line.boundingBox({ timeout: 2000 }), text: plain(await line.innerText({ timeout: 2000 })) });
    }
    const under = [];
    for (const squiggle of found) {
      const { y, height } = await squiggle.boundingBox({ timeout: 2000 });
      const middle = y + height / 2;
      under.push(lines.find(({ box }) => box && box.y <= middle && middle < box.y + box.height)?.text);
    }
    return under.length > 0 ? under : undefined;
  });
}

/** The name of a kernel where it is defined. */
export function nameOf(page, kernel) {
  return page.locator(".view-line", { hasText: `def ${kernel}` }).locator("span", { hasText: kernel }).last();
}

/** Rests the mouse on a kernel's name until a hover speaks of it; tried again, for the text may move under the mouse. */
export async function hover(page, kernel) {
  const content = page.locator(".monaco-hover:not(.hidden) .monaco-hover-content", { hasText: kernel });
  return until(`the hover of ${kernel}`, async () => {
    await aside(page); // a hover opens when the mouse comes to rest
    const box = await nameOf(page, kernel).boundingBox({ timeout: 5000 });
    const middle = [box.x + box.width / 2, box.y + box.height / 2];
    await page.mouse.move(middle[0] - 8, middle[1]);
    await page.mouse.move(...middle);
    await content.waitFor({ timeout: 6000 });
    return { text: plain(await content.innerText()), tables: await content.locator("table").count() };
  });
}

/** Saves until the file on disk satisfies the condition (an edit by the server arrives when it arrives). */
export async function saved(page, path, condition) {
  return until(`${path} to change`, async () => {
    await page.keyboard.press("Control+s");
    await page.waitForTimeout(200);
    const text = readFileSync(path, "utf8");
    return condition(text) ? text : undefined;
  });
}

/** Tries until there is an answer; what fails meanwhile is tried again. */
export async function until(what, answer, milliseconds = 40_000) {
  const end = performance.now() + milliseconds;
  let last;
  while (performance.now() < end) {
    try {
      const found = await answer();
      if (found !== undefined) {
        return found;
      }
    } catch (error) {
      last = error;
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`Waited in vain for ${what}. ${last ?? ""}`);
}
