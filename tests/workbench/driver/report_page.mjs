// Reads the kernel report as a person does, in a browser. Takes {installation, chromium, page} and prints what was seen.
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const { installation, chromium: executablePath, page: file } = JSON.parse(process.argv[2]);
const { chromium } = createRequire(join(installation, "driver/"))("playwright-core");
const browser = await chromium.launch({
  executablePath,
  args: ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"],
});
try {
  const page = await browser.newPage({ viewport: { width: 1300, height: 900 } });
  const problems = [];
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
  page.on("request", (request) => request.url().startsWith("file:") || problems.push(`asks for ${request.url()}`));
  await page.goto(pathToFileURL(file).href);

  const source = page.getByRole("listbox", { name: /^Source of/ }).first();
  const status = page.getByRole("status").first();
  const focused = () => page.evaluate(() => document.activeElement.dataset.l ?? document.activeElement.textContent);
  const marked = () => page.locator("[role=tabpanel]:not([hidden]) .mark .t").allInnerTexts();
  const seen = { hint: await status.innerText() };

  await source.locator('[data-l="13"]').click();
  seen.click = { status: await status.innerText(), focused: await focused(), marked: await marked() };
  await page.keyboard.press("ArrowUp");
  seen.up = { status: await status.innerText(), focused: await focused() };
  await page.keyboard.press("End");
  seen.end = await focused();

  const tabs = page.getByRole("tab");
  seen.tabs = await tabs.allInnerTexts();
  await tabs.first().focus();
  await page.keyboard.press("ArrowRight");
  seen.tab = { focused: await focused(), panels: await page.getByRole("tabpanel").count() };

  await source.locator('[data-l="13"]').click();
  await page.keyboard.press("ArrowRight");
  seen.crossed = { focused: await focused(), marked: await marked() };
  await page.keyboard.press("ArrowLeft");
  seen.back = await focused();

  await page.getByRole("listbox", { name: "SASS" }).getByRole("option", { name: /LDG/ }).click();
  seen.row = { status: await status.innerText(), source: await source.locator(".mark").allInnerTexts() };
  await source.locator('[data-l="13"]').hover();
  seen.hover = await page.locator("[role=tabpanel]:not([hidden]) .over .t").allInnerTexts();

  const launch = page.getByRole("combobox", { name: "Launch to show" });
  await launch.selectOption({ index: 1 });
  seen.launches = await page.locator("[data-launch]").evaluateAll((all) => all.map((one) => one.hidden));
  await launch.selectOption({ index: 0 });
  await page.getByRole("link", { name: "line 13" }).click();
  seen.link = await focused();
  seen.actions = await page.getByRole("toolbar", { name: "Actions" }).count();
  console.log(JSON.stringify({ ...seen, problems }));
} finally {
  await browser.close();
}
