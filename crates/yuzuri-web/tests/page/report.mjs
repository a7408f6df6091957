// Tests a report of `yuzuri identify --html` in Chromium: its charts zoom together.
//
//   node report.mjs FILE.html
import assert from "node:assert/strict";
import { pathToFileURL } from "node:url";
import { drawn, eventually, launch, open, problems } from "./browser.mjs";

const url = pathToFileURL(process.argv[2]).href;
const browser = await launch();
try {
  // Without scripts the report shows still pictures.
  const still = await open(browser, url, { javaScriptEnabled: false });
  for (const kind of ["window", "rates", "sequence"]) assert.equal(await still.locator(`section:first-of-type figure[data-lanes=${kind}] svg`).count(), 1, kind);
  assert.equal(await still.locator(".lanes").count(), 0);
  await still.context().close();

  const page = await open(browser, url, { viewport: { width: 1100, height: 900 } });
  const section = page.locator("section").first();
  const lanes = (kind) => section.locator(`figure[data-lanes=${kind}] .lanes`);
  const view = async () => (await section.getAttribute("data-view")).split(" ").map(Number);
  await eventually(page, () => section.getAttribute("data-view"), (now) => now !== null);
  assert.equal(await section.locator("figure[data-lanes] > svg").count(), 0, "the script draws them");
  const whole = await view();
  assert.equal(whole[0], 0);
  assert.ok(whole[1] > 5e6, `${whole}`);
  const wide = async () => (await view())[1] - (await view())[0];
  const becomes = async (hold) => {
    await eventually(page, wide, hold);
    await drawn(page);
  };
  const all = () => becomes((now) => now === whole[1]);
  // The content of each canvas, to detect changes.
  const pictures = () => section.evaluate((root) => [...root.querySelectorAll(".lanes canvas")].map((canvas) => canvas.toDataURL()));
  const at = async (kind, part, high = 0.5) => {
    await lanes(kind).scrollIntoViewIfNeeded();
    const box = await lanes(kind).boundingBox();
    return [box.x + 60 + (box.width - 76) * part, box.y + box.height * high];
  };

  await drawn(page);
  const before = await pictures();
  assert.ok(before.length >= 5, `windows, differences, throughput, RTT, segments: ${before.length}`);
  await page.mouse.move(...(await at("sequence", 0.5)));
  await page.mouse.wheel(0, -120);
  await becomes((now) => now < whole[1] * 0.9);
  (await pictures()).forEach((picture, n) => assert.notEqual(picture, before[n], `lane ${n} zooms, too`));
  const [from, to] = await view();
  assert.ok(Math.abs((from + to) / 2 - whole[1] / 2) < whole[1] * 0.02, "around the pointer");

  // A drag in any lane selects a time range.
  await page.mouse.dblclick(...(await at("sequence", 0.5)));
  await all();
  await page.mouse.move(...(await at("rates", 0.25)));
  await page.mouse.down();
  await page.mouse.move(...(await at("rates", 0.5)), { steps: 5 });
  assert.ok(await lanes("rates").locator(".brush").isVisible(), "the stretch is shown");
  await page.mouse.up();
  await becomes((now) => Math.abs(now - whole[1] / 4) < whole[1] * 0.01);
  assert.ok(Math.abs((await view())[0] - whole[1] / 4) < whole[1] * 0.01, `${await view()}`);

  // With shift a drag moves the view, which stops at the flow's beginning.
  const [start] = await view();
  await page.keyboard.down("Shift");
  await page.mouse.move(...(await at("window", 0.3)));
  await page.mouse.down();
  await page.mouse.move(...(await at("window", 0.6)), { steps: 5 });
  await eventually(page, view, ([now]) => now < start);
  await page.mouse.up();
  await page.keyboard.up("Shift");
  await page.mouse.dblclick(...(await at("window", 0.5)));
  await all();

  // By keyboard.
  await lanes("sequence").focus();
  for (let n = 0; n < 12; n += 1) await page.keyboard.press("+");
  await becomes((now) => Math.abs(now * 1.5 ** 12 - whole[1]) < whole[1] * 0.01);
  const [left] = await view();
  await page.keyboard.press("]");
  await eventually(page, view, ([now]) => now > left);

  // Zoomed in, single segments are distinguishable: there are empty columns between their strokes.
  const columns = () =>
    lanes("sequence").evaluate((root) => {
      const probe = document.createElement("i");
      probe.style.color = "var(--seen)";
      document.body.append(probe);
      const [r, g, b] = getComputedStyle(probe).color.match(/\d+/g).map(Number);
      probe.remove();
      const canvas = root.querySelector("canvas");
      const { width, height } = canvas;
      const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
      const has = Array.from({ length: width }, (_, x) => {
        for (let y = 0; y < height; y += 1) {
          const i = (y * width + x) * 4;
          if (data[i + 3] > 60 && Math.abs(data[i] - r) + Math.abs(data[i + 1] - g) + Math.abs(data[i + 2] - b) < 60) return true;
        }
        return false;
      });
      return has.filter((now, x) => now && !has[x - 1]).length;
    });
  const strokes = await columns();
  assert.ok(strokes >= 8, `${strokes} strokes in ${await view()}`);
  await page.keyboard.press("0");
  await all();
  await page.context().close();

  // On a phone, two fingers zoom, and no element is wider than the page.
  const phone = await open(browser, url, { viewport: { width: 390, height: 800 }, hasTouch: true, isMobile: true });
  const own = phone.locator("section").first();
  await eventually(phone, () => own.getAttribute("data-view"), (now) => now !== null);
  const of = own.locator("figure[data-lanes=rates] .lanes");
  await of.scrollIntoViewIfNeeded();
  const box = await of.boundingBox();
  const cdp = await phone.context().newCDPSession(phone);
  const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
  const touch = (type, far) => cdp.send("Input.dispatchTouchEvent", { type, touchPoints: far === undefined ? [] : [{ x: x - far, y, id: 0 }, { x: x + far, y, id: 1 }] });
  await touch("touchStart", 30);
  for (const far of [50, 70, 90]) await touch("touchMove", far);
  await touch("touchEnd");
  await eventually(phone, async () => (await own.getAttribute("data-view")).split(" ").map(Number), ([a, b]) => Math.abs((b - a) * 3 - whole[1]) < whole[1] * 0.1);
  assert.ok(await phone.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth), "nothing is wider than the page");
  await phone.context().close();
  assert.deepEqual(problems, [], "nothing on the console");
  if (process.env.SHOTS) {
    for (const colorScheme of ["light", "dark"]) {
      const shot = await open(browser, url, { viewport: { width: 1100, height: 2600 }, colorScheme });
      await shot.waitForFunction(() => document.querySelector("section").dataset.view !== undefined);
      await drawn(shot);
      await shot.screenshot({ path: `${process.env.SHOTS}/report-${colorScheme}.png`, fullPage: false });
    }
  }
} finally {
  await browser.close();
}
