// Tests the page in Chromium with a real server.
//
//   node run.mjs [URL]            without a URL it starts the artificial feed (FEED=path of its binary)
//
// SHOTS=folder saves screenshots. ONLY=words runs the checks whose names contain these words.
// load.mjs measures frame times and memory.
import assert from "node:assert/strict";
import { endFeeds, feed, problems } from "./browser.mjs";
import "./shown.mjs";
import "./used.mjs";
import "./served.mjs";
import "./sharing.mjs";
import "./sharing-live.mjs";
import "./stations-live.mjs";
import { browser, tests } from "./session.mjs";

const given = process.argv.slice(2).find((arg) => arg.startsWith("http"));

let failed = 0;
try {
  const url = given ?? (await feed("--flows", "24", "--past", "60", "--rate", "500")).url;
  for (const { name, run, only } of tests) {
    if ((given && only === "own") || (process.env.ONLY && !name.includes(process.env.ONLY))) continue;
    const before = problems.length;
    try {
      await run(url);
      assert.deepEqual(problems.slice(before), [], "nothing on the console");
      console.log(`ok   ${name}`);
    } catch (error) {
      failed += 1;
      console.log(`FAIL ${name}\n     ${String(error.stack).split("\n").slice(0, 6).join("\n     ")}`);
    }
  }
} finally {
  await browser.close();
  endFeeds();
}
process.exit(failed === 0 ? 0 : 1);
