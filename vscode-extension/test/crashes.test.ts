import { expect, test } from "vitest";

import { Crashes } from "../src/server/crashes.js";

test("a server that crashes now and then is started again each time", () => {
  const crashes = new Crashes();
  const minutes = Array.from({ length: 50 }, (_, index) => index);
  expect(minutes.map((minute) => crashes.mayRestart(minute * 60_000))).not.toContain(false);
});

test("a server that crashes five times in three minutes is left alone", () => {
  const crashes = new Crashes();
  expect([0, 1, 2, 3, 4].map((second) => crashes.mayRestart(second * 1000))).toEqual([true, true, true, true, false]);
});
