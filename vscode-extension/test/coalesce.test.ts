import assert from "node:assert/strict";
import { test } from "vitest";
import { setTimeout as sleep } from "node:timers/promises";

import { Coalesced } from "../src/coalesce.js";

test("many requests in a moment lead to one run", async () => {
  let runs = 0;
  const work = new Coalesced(() => Promise.resolve(void (runs += 1)), 10);
  for (let i = 0; i < 20; i += 1) {
    work.request();
  }
  await sleep(60);
  assert.equal(runs, 1);
});

test("requests during a run lead to exactly one run after it, never to two at once", async () => {
  let runs = 0;
  let atOnce = 0;
  const work = new Coalesced(async () => {
    atOnce += 1;
    assert.equal(atOnce, 1);
    await sleep(20);
    atOnce -= 1;
    runs += 1;
  }, 1);
  const first = work.now();
  await Promise.all([work.now(), work.now(), work.now()]);
  await first;
  assert.equal(runs, 2);
});

test("nothing runs after it was stopped", async () => {
  let runs = 0;
  const work = new Coalesced(() => Promise.resolve(void (runs += 1)), 10);
  work.request();
  await work.stop();
  work.request();
  await sleep(40);
  assert.equal(runs, 0);
});

test("a run that fails does not stop the next one", async () => {
  let runs = 0;
  const work = new Coalesced(() => {
    runs += 1;
    return runs === 1 ? Promise.reject(new Error("first")) : Promise.resolve();
  }, 1);
  await assert.rejects(work.now(), /first/);
  await work.now();
  assert.equal(runs, 2);
});
