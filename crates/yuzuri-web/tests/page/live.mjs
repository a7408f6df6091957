// Tests of the page with real daemons in network namespaces (YUZURI=path of the program; needs root).
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "./session.mjs";

export const program = process.env.YUZURI;
export const run = (words) => execFileSync(words.split(" ")[0], words.split(" ").slice(1), { stdio: ["ignore", "pipe", "pipe"] }).toString();

/** Starts a process and collects its output; `until` waits for text in the output, and returns
 * false if the process ends first. */
export function start(command, words, children) {
  const child = spawn(command, words, { stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  let ended = false;
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (data) => (output += data));
  const end = new Promise((resolve) => child.once("exit", () => resolve((ended = true))));
  const proc = {
    all: () => output,
    end: () => (child.kill("SIGINT"), end),
    until: async (words) => {
      for (const late = Date.now() + 20_000; !output.includes(words) && !ended; await new Promise((resolve) => setTimeout(resolve, 50))) {
        if (Date.now() > late) throw new Error(`never "${words}": ${output}`);
      }
      return output.includes(words);
    },
  };
  children.push(proc);
  return proc;
}

/**
 * A test in its own folder. `check(folder, children)` creates the namespaces, starts processes, and
 * returns why it was skipped, or "". Processes are ended in reverse order, the daemons last: they
 * unregister their congestion control, which must be unused.
 */
export function live(name, namespaces, check) {
  const skip = program === undefined ? "YUZURI does not name the program" : process.getuid() !== 0 ? "network namespaces need root" : "";
  if (skip) {
    console.log(`${name}: skipped: ${skip}`);
    return;
  }
  test(name, async () => {
    const folder = mkdtempSync(join(tmpdir(), "yuzuri-page-"));
    const children = [];
    try {
      const skipped = await check(folder, children);
      if (skipped) console.log(`${name}: ${skipped}`);
    } finally {
      for (const child of children.reverse()) await child.end();
      for (const namespace of namespaces) {
        try {
          run(`ip netns del ${namespace}`);
        } catch {
          // The namespace was not created.
        }
      }
      rmSync(folder, { recursive: true });
    }
  }, "own");
}
