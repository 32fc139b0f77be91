// Tells the story in a workbench. Takes one JSON argument (see test_workbench_story.py) and prints one JSON object a
// step: {"step", "seconds", "result" | "error"}. The first step that fails ends the story.
import { mkdirSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { steps } from "./story.mjs";
import { openFile, startWorkbench } from "./workbench.mjs";

const STORY_MILLISECONDS = 200_000;
const SETTLING_MILLISECONDS = 700; // toasts slide in, hovers grow

const story = JSON.parse(process.argv[2]);
const { chromium } = createRequire(join(story.installation, "driver/"))("playwright-core");
rmSync(story.screenshots, { recursive: true, force: true });
mkdirSync(story.screenshots, { recursive: true });

const workbench = await startWorkbench(story);
let browser;
try {
  const opened = await openFile(chromium, story.chromium, workbench, story.folder, story.file);
  browser = opened.browser;
  const { page } = opened;
  page.setDefaultTimeout(30_000);
  const end = performance.now() + STORY_MILLISECONDS;
  for (const [index, [step, act]] of steps.entries()) {
    const started = performance.now();
    const shot = join(story.screenshots, `${String(index + 1).padStart(2, "0")}-${step}.png`);
    let outcome;
    try {
      const result = act({ page, path: join(story.folder, story.file) });
      const late = sleep(end - started, undefined, { ref: false }).then(() => {
        throw new Error(`the story was not told in ${STORY_MILLISECONDS / 1000} s`);
      });
      outcome = { result: await Promise.race([result, late]) };
    } catch (error) {
      outcome = { error: String(error) };
    }
    await sleep(SETTLING_MILLISECONDS);
    await page.screenshot({ path: shot });
    console.log(JSON.stringify({ step, seconds: (performance.now() - started) / 1000, ...outcome }));
    if (outcome.error !== undefined) {
      break; // closing the browser ends what the step still waits for
    }
  }
} finally {
  await browser?.close();
  await workbench.stop();
}
