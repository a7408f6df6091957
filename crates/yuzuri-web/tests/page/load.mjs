// Measures frame times and memory of the page with 200 flows at 1000 samples/s, one of them in the
// chart.
//
//   node load.mjs [URL]           without a URL it starts the artificial feed (FEED=path of its binary)
//
// MINUTES=n is the duration (default 2), SPEED=x speeds up the feed's time. It fails if the heap,
// the nodes or the listeners grow, or if the main thread computes for too long for each frame; it
// also prints the frame times, which depend on the machine's other work.
import { endFeeds, feed, launch, living, open, problems, ready, text } from "./browser.mjs";

const given = process.argv.slice(2).find((arg) => arg.startsWith("http"));
const minutes = Number(process.env.MINUTES ?? 2);
if (!(minutes > 0)) throw new Error(`MINUTES=${process.env.MINUTES}: not a number of minutes`);
/** A run of a quarter of an hour or more checks growth after the first five minutes, when the lists
 * are full; a shorter run checks after a third of its time, while they still fill. */
const long = minutes >= 15;
const settledMs = Math.min(5, minutes / 3) * 60_000;
const pauseMs = long ? 60_000 : 10_000;
/**
 * Maximum growth from then to the end, computed from the median of all slopes (the Theil-Sen
 * estimator), so that one late collection or one busy moment does not decide. The page keeps at
 * most 5000 events of a charted flow and 2500 of all flows; the heap's bound allows for the former,
 * which take up to an hour to arrive. It lists 150 of them, at 16 nodes each.
 */
const BOUNDS = long ? { heapBytes: 2_000_000, nodes: 100, listeners: 10 } : { heapBytes: 4_000_000, nodes: 150 * 16 + 100, listeners: 20 };

/** Maximum of the time that the main thread computes for each frame, median of the measurements:
 * half of a frame at 60 frames/s. */
const MAX_FRAME_MS = 8;

/** Runs in the page before the page's script: counts the stream's messages and measures frame
 * times, in memory of fixed size. */
function watch() {
  const counts = { rows: 0, chart: 0, events: 0, status: 0, gap: 0, bytes: 0, samples: 0 };
  const ask = window.fetch;
  window.fetch = async (...args) => {
    const response = await ask(...args);
    if (!response.ok || !String(args[0]).startsWith("/api/live?")) return response;
    const decoder = new TextDecoder();
    let rest = "";
    const counted = new TransformStream({
      transform(chunk, out) {
        out.enqueue(chunk);
        const parts = (rest + decoder.decode(chunk, { stream: true })).split("\n\n");
        rest = parts.pop();
        for (const part of parts) {
          const [, name, data] = part.match(/^event: (\w+)\ndata: (.*)$/) ?? [];
          if (!(name in counts)) continue;
          counts[name] += 1;
          counts.bytes += data.length;
          // Buckets of 28 numbers (`STRIDE`); the third is the number of samples.
          if (name === "chart") for (const list of Object.values(JSON.parse(data).flows)) for (let n = 2; n < list.length; n += 28) counts.samples += list[n];
        }
      },
    });
    const { status, headers } = response;
    return new Response(response.body.pipeThrough(counted), { status, headers });
  };
  const gaps = new Float64Array(64 * 240);
  let [filled, last] = [0, 0];
  const frame = (at) => {
    if (last > 0 && filled < gaps.length) gaps[filled++] = at - last;
    last = at;
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
  window.watched = () => {
    const sorted = gaps.slice(0, filled).sort();
    const at = (part) => sorted[Math.min(Math.floor(filled * part), filled - 1)] ?? 0;
    const measured = { ...counts, frames: filled, seconds: sorted.reduce((sum, gap) => sum + gap, 0) / 1000, median: at(0.5), p95: at(0.95), p99: at(0.99) };
    filled = 0;
    for (const name of Object.keys(counts)) counts[name] = 0;
    return measured;
  };
}

function slope(points) {
  const slopes = points.flatMap(([x, y], n) => points.slice(n + 1).map(([u, v]) => (v - y) / (u - x))).sort((a, b) => a - b);
  const middle = slopes.length >> 1;
  return slopes.length % 2 === 1 ? slopes[middle] : (slopes[middle - 1] + slopes[middle]) / 2;
}

async function measure(browser, url) {
  const page = await open(browser, url, {}, watch);
  await ready(page);
  const cdp = await page.context().newCDPSession(page);
  // CPU time of the main thread, not elapsed time, so that the figure is meaningful on a busy
  // machine, too.
  await cdp.send("Performance.enable", { timeDomain: "threadTicks" });
  const busy = async () => (await cdp.send("Performance.getMetrics")).metrics.find(({ name }) => name === "TaskDuration").value;
  const start = performance.now();
  const looks = [];
  let busyBefore = await busy();
  await page.evaluate(() => window.watched());
  for (let n = 1; performance.now() - start < minutes * 60_000 - pauseMs / 2; n += 1) {
    await page.waitForTimeout(Math.max(n * pauseMs - (performance.now() - start), 0));
    const seen = await page.evaluate(() => window.watched());
    const busySeconds = (await busy()) - busyBefore;
    const ms = performance.now() - start;
    const frameMs = (busySeconds * 1000) / Math.max(seen.frames, 1);
    const look = { ms, frameMs, ...(await living(page)) };
    looks.push(look);
    busyBefore = await busy();
    const per = (value) => (value / seen.seconds).toFixed(value / seen.seconds < 10 ? 1 : 0);
    console.log(
      `${(ms / 60_000).toFixed(1).padStart(5)} min: heap ${(look.heapBytes / 1e6).toFixed(2)} MB, ${look.nodes} nodes, ${look.listeners} listeners; ` +
        `frames ${per(seen.frames)}/s, median ${seen.median.toFixed(1)}, p95 ${seen.p95.toFixed(1)}, p99 ${seen.p99.toFixed(1)} ms, ${frameMs.toFixed(1)} ms computed for each, main thread ${((busySeconds / seen.seconds) * 100).toFixed(0)} % of a core; ` +
        `of the charted flow ${per(seen.samples)} samples/s, rows ${per(seen.rows)}/s, chart ${per(seen.chart)}/s, ${per(seen.bytes / 1000)} kB/s, ${seen.gap} gaps; ` +
        `${await text(page, "#found")}; ${await text(page, "#account")}`,
    );
  }
  await page.context().close();
  const settled = looks.filter(({ ms }) => ms >= settledMs);
  if (settled.length < 3) throw new Error(`${settled.length} measurements after the first minutes are too few: measure for longer`);
  const [first, last] = [settled[0], settled[settled.length - 1]];
  const grown = Object.entries(BOUNDS).filter(([name, most]) => {
    const by = slope(settled.map((look) => [look.ms, look[name]])) * (last.ms - first.ms);
    console.log(`${name}: ${first[name]} after ${(first.ms / 60_000).toFixed(1)} min, ${last[name]} after ${(last.ms / 60_000).toFixed(1)} min; grows by ${by.toFixed(0)} between, at most ${most} is allowed`);
    return !(by <= most);
  });
  const frames = settled.map((look) => look.frameMs).sort((a, b) => a - b);
  const [middle, longest] = [frames[frames.length >> 1], frames[frames.length - 1]];
  console.log(`main thread: ${middle.toFixed(1)} ms computed for each frame (at most ${longest.toFixed(1)} in a measurement); at most ${MAX_FRAME_MS} is allowed`);
  if (!(middle <= MAX_FRAME_MS)) throw new Error(`the main thread computes ${middle.toFixed(1)} ms for each frame`);
  if (grown.length > 0) throw new Error(`what grows: ${grown.map(([name]) => name).join(", ")}`);
  if (problems.length > 0) throw new Error(`the console is not clean: ${problems.join("; ")}`);
}

const browser = await launch();
let failed = false;
try {
  await measure(browser, given ?? (await feed("--flows", "200", "--rate", "1000", "--speed", process.env.SPEED ?? "1")).url);
} catch (error) {
  failed = true;
  console.log(`FAIL ${error.stack}`);
} finally {
  await browser.close();
  endFeeds();
}
process.exit(failed ? 1 : 0);
