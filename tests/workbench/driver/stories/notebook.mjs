// A kernel in one cell of a notebook, launched in another.
import { aside, button, clickLens, hover, lensText, plain, quickOpen, squiggles, tidy, toast } from "../screen.mjs";

export const steps = [
  ["notebook", open],
  ["notebook_profile", profile],
];

async function open({ page, notebook }) {
  await tidy(page);
  await quickOpen(page, notebook);
  const cells = page.locator(".notebookOverlay .cell-list-container .monaco-list-row .cell.code");
  await page.locator(".notebookOverlay .view-line", { hasText: "def scale_kernel" }).waitFor();
  const lens = await lensText(page, "Optimize");
  return { lens, cells: await cells.count(), hover: (await hover(page, "scale_kernel")).text, lines: await squiggles(page) };
}

async function profile({ page }) {
  await aside(page);
  await clickLens(page, "Profile");
  const question = toast(page, "scale_kernel").filter({ has: button(page, "Run") });
  await question.waitFor();
  const asked = plain(await question.innerText());
  await button(question, "Run").click();
  return { asked, lens: await lensText(page, "of roofline", 90_000) };
}
