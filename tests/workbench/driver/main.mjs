// Tells the stories in one workbench. Takes one JSON argument (see test_workbench_story.py) and prints one JSON object a
// step: {"story", "step", "seconds", "result" | "error"}. A step that fails ends its story; the next one opens the window
// anew.
import { mkdirSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { openBrowser, openFile, startWorkbench } from "./workbench.mjs";

const STORIES = ["trust", "kernel", "report", "view", "notebook", "trouble"];
const SETTLING_MILLISECONDS = 300; // what a step has just shown is drawn

const asked = JSON.parse(process.argv[2]);
const { chromium } = createRequire(join(asked.installation, "driver/"))("playwright-core");
rmSync(asked.screenshots, { recursive: true, force: true });
mkdirSync(asked.screenshots, { recursive: true });

const end = performance.now() + asked.seconds * 1000;
const workbench = await startWorkbench(asked);
const browser = await openBrowser(chromium, asked.chromium);
const profile = await browser.newContext({ viewport: { width: 1280, height: 800 } }); // knows which folders are trusted
let shots = 0;

async function take(page, name) {
  shots += 1;
  await sleep(SETTLING_MILLISECONDS);
  const path = join(asked.screenshots, `${String(shots).padStart(2, "0")}-${name}.png`);
  await page.screenshot({ path, animations: "disabled" });
}

/** Runs one step; its outcome is printed, and an error returned. */
async function tell(story, step, page, act) {
  const started = performance.now();
  let outcome;
  const watch = new AbortController();
  try {
    const late = sleep(Math.max(0, end - started), undefined, { signal: watch.signal }).then(() => {
      throw new Error(`the stories were not told in ${asked.seconds} s`);
    });
    late.catch(() => undefined);
    outcome = { result: await Promise.race([act(), late]) };
  } catch (error) {
    outcome = { error: String(error) };
  }
  watch.abort();
  const seconds = (performance.now() - started) / 1000;
  await take(page, step).catch(() => undefined);
  console.log(JSON.stringify({ story, step, seconds, ...outcome }));
  return outcome.error;
}

try {
  console.log(JSON.stringify({ story: "install", step: "install", seconds: 0, result: { extensions: workbench.extensions } }));
  let page;
  for (const story of asked.stories ?? STORIES) {
    if (performance.now() > end) {
      break;
    }
    const { steps } = await import(`./stories/${story}.mjs`);
    if (page === undefined) {
      page = await profile.newPage();
      page.setDefaultTimeout(40_000);
      if ((await tell(story, `${story}_open`, page, () => openFile(page, workbench, asked.folder, asked.file))) !== undefined) {
        await page.close();
        page = undefined;
        continue;
      }
    }
    const context = { ...asked, page, workbench, path: join(asked.folder, asked.file) };
    for (const [step, act] of steps) {
      if ((await tell(story, step, page, () => act(context))) !== undefined) {
        await page.close(); // ends what the step still waits for
        page = undefined;
        break;
      }
    }
  }
} finally {
  await browser.close();
  const left = await workbench.stop();
  console.log(JSON.stringify({ story: "end", step: "end", seconds: 0, result: { left } }));
}
