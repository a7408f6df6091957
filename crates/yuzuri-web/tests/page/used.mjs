// Using the page by mouse, keyboard, touch and screen reader.
import assert from "node:assert/strict";
import { drawn, eventually, living, news, ready, text, until } from "./browser.mjs";
import { line, open, shots, test, value } from "./session.mjs";

test("pause freezes, zoom and drag choose, double click goes live", async (url) => {
  const page = await open(url);
  await ready(page);
  await line(page, "--cwnd");
  const box = await page.locator(".lanes").boundingBox();
  const at = (part, high = 0.3) => [box.x + 60 + (box.width - 120) * part, box.y + box.height * high];
  // In the live view, a resting pointer keeps the cursor below it while time advances.
  await page.mouse.move(...at(0.5));
  await until(page, () => !document.querySelector(".cursor-line").hidden && /\d:/.test(document.querySelector('[data-value="time"]').textContent));
  const cursor = async () => (await page.locator(".cursor-line").boundingBox()).x;
  const [place, earlier] = [await cursor(), await value(page, "time")];
  await until(page, (old) => Number(document.querySelector('[data-value="time"]').textContent.slice(-6)) !== Number(old.slice(-6)), earlier);
  assert.ok(Math.abs((await cursor()) - place) < 2, "the cursor stays below the pointer");
  await page.click("#pause");
  assert.equal(await text(page, "#pause"), "Go live");
  const picture = () => page.locator(".lanes canvas").first().evaluate((c) => c.toDataURL().length + c.toDataURL().slice(-4000));
  await page.mouse.move(...at(0.5));
  await drawn(page);
  const before = await picture();
  await news(page);
  await drawn(page);
  assert.equal(await picture(), before, "a frozen view stays");
  const time = async (part) => {
    await page.mouse.move(...at(part));
    await drawn(page);
    const [h, m, s] = (await value(page, "time")).split(":").map(Number);
    return h * 3600 + m * 60 + s;
  };
  const wide = async () => (await time(0.95)) - (await time(0.05));
  const span = await wide();
  assert.ok(Math.abs(span - 27) < 1, `30 s are shown: ${span}`);
  await page.mouse.move(...at(0.5));
  await page.mouse.wheel(0, -120);
  await eventually(page, wide, (now) => now < span * 0.9);
  await page.mouse.move(...at(0.4));
  await page.mouse.down();
  await page.mouse.move(...at(0.6), { steps: 5 });
  await page.mouse.up();
  await eventually(page, wide, (now) => now < span * 0.25);
  const from = await time(0.5);
  await page.keyboard.down("Shift");
  await page.mouse.move(...at(0.3));
  await page.mouse.down();
  await page.mouse.move(...at(0.6), { steps: 5 });
  await page.mouse.up();
  await page.keyboard.up("Shift");
  assert.ok((await time(0.5)) < from, "shift and drag move back");
  await page.mouse.dblclick(...at(0.5));
  assert.equal(await text(page, "#pause"), "Pause");
  await page.context().close();
});

test("rows keep their places while the pointer is on the list", async (url) => {
  const page = await open(url);
  await ready(page);
  // The rows are sorted with the next picture after the click, before the pointer holds them.
  const before = await page.evaluate(() => {
    const order = [...document.querySelectorAll("tr.flow")].map((row) => row.dataset.id).join();
    [...document.querySelectorAll("th button")].find((button) => button.textContent.startsWith("cwnd")).click();
    return order;
  });
  await until(page, (before) => [...document.querySelectorAll("tr.flow")].map((row) => row.dataset.id).join() !== before, before);
  assert.match(await page.locator('th[aria-sort="descending"]').textContent(), /^cwnd/);
  await page.locator("tr.flow").nth(2).hover();
  // Three times as long as the list waits between two sortings (2 s). If the windows shown are in
  // another order by then, sorting would have moved rows.
  const seen = await page.evaluate(async () => {
    const rows = () => [...document.querySelectorAll("tr.flow")];
    const cwnds = () => rows().map((row) => row.querySelector(".cwnd-cell").textContent).map((text) => Number.parseFloat(text) * (text.includes("k") ? 1e3 : 1));
    const orders = new Set();
    let unsorted = 0;
    for (const end = performance.now() + 6500; performance.now() < end; ) {
      orders.add(rows().map((row) => row.dataset.id).join());
      unsorted = cwnds().slice(1).filter((cwnd, n) => cwnd > cwnds()[n]).length;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    return { orders: [...orders], unsorted };
  });
  assert.ok(seen.unsorted > 0, "sorting would have moved no row");
  assert.equal(seen.orders.length, 1, seen.orders.join("\n"));
  // Away from it, they are sorted again.
  await page.mouse.move(1, 1);
  await until(page, (before) => [...document.querySelectorAll("tr.flow")].map((row) => row.dataset.id).join() !== before, seen.orders[0]);
  await page.context().close();
});

test("everything can be done by keyboard", async (url) => {
  const page = await open(url);
  await ready(page);
  const key = (k) => page.keyboard.press(k);
  const focused = () => page.locator('tr.flow[aria-selected="true"]').getAttribute("data-id");
  const first = await focused();
  await key("j");
  await until(page, (id) => document.querySelector('tr.flow[aria-selected="true"]')?.dataset.id !== id, first);
  await key("x");
  await until(page, () => document.querySelector('tr.flow[aria-selected="true"] input').checked);
  await key("2");
  await until(page, () => document.querySelectorAll(".panel-over canvas").length === 7);
  await line(page, "--cwnd");
  if (shots) await page.screenshot({ path: `${shots}/overlay.png` });
  await key("3");
  await until(page, () => document.querySelectorAll(".panel-small").length >= 2);
  await drawn(page);
  if (shots) await page.screenshot({ path: `${shots}/small-multiples.png` });
  await key("4");
  await until(page, () => document.querySelectorAll(".panel-seq canvas").length === 4);
  // Zoomed in, the line of sent bytes is above that of acknowledged bytes.
  for (let n = 0; n < 16; n += 1) await key("+");
  await line(page, "--cwnd");
  await line(page, "--rate");
  await eventually(page, () => text(page, '[data-value="outstanding"]'), (outstanding) => / [kM]?B$/.test(outstanding));
  assert.match(await text(page, '[data-value="acked"]'), / [kMG]?B$/);
  if (shots) await page.screenshot({ path: `${shots}/sequence.png` });
  await key("1");
  await key(" ");
  assert.equal(await text(page, "#pause"), "Go live");
  await key("0");
  assert.equal(await text(page, "#pause"), "Pause");
  const shown = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  await key("t");
  await until(page, (old) => getComputedStyle(document.body).backgroundColor !== old, shown);
  await key("?");
  assert.ok(await page.locator("#help").isVisible());
  if (shots) await page.screenshot({ path: `${shots}/help.png` });
  await key("Escape");
  assert.ok(!(await page.locator("#help").isVisible()));
  await key("/");
  assert.equal(await page.evaluate(() => document.activeElement.id), "find");
  await key("Escape");
  await key("n");
  assert.ok((await text(page, "#announcement")).length > 0);
  // Each focused element shows that it has the focus.
  for (let n = 0; n < 30; n += 1) {
    await key("Tab");
    const outline = await page.evaluate(() => {
      const style = getComputedStyle(document.activeElement);
      return document.activeElement === document.body ? "body" : style.outlineStyle;
    });
    assert.ok(outline !== "none", await page.evaluate(() => document.activeElement.outerHTML.slice(0, 120)));
  }
  await page.context().close();
});

test("fingers move and zoom", async (url) => {
  const page = await open(url, { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
  await ready(page);
  await until(page, () => document.querySelector("#chart-text").textContent.includes("following live"));
  const cdp = await page.context().newCDPSession(page);
  // On a narrow page the list comes first, and a tap on a flow scrolls to its chart.
  await page.locator("tr.flow .name").nth(1).tap();
  await until(page, () => document.querySelector("#chart").getBoundingClientRect().bottom <= window.innerHeight + 1);
  const box = await page.locator(".lanes").boundingBox();
  const middle = box.x + box.width / 2;
  const y = box.y + box.height * 0.3;
  const touch = (type, ...xs) => cdp.send("Input.dispatchTouchEvent", { type, touchPoints: xs.map((x, id) => ({ x, y, id })) });
  const move = async (from, to) => {
    await touch("touchStart", from[0]);
    if (from.length > 1) await touch("touchStart", ...from);
    for (let n = 1; n <= 6; n += 1) await touch("touchMove", ...from.map((x, i) => x + ((to[i] - x) * n) / 6));
    await touch("touchEnd");
  };
  // The chart's description begins with the visible time range.
  const seen = async () => {
    const [from, to] = [...(await text(page, "#chart-text")).matchAll(/(\d+):(\d+):([\d.]+)/g)].slice(0, 2).map(([, h, m, s]) => h * 3600 + m * 60 + Number(s));
    return { from, to, wide: to - from };
  };
  const settled = (hold) => eventually(page, seen, hold);
  await settled(({ wide }) => Math.abs(wide - 30) < 0.1);
  // In the live view, two fingers change the span, and the view continues to follow.
  await move([middle - 40, middle + 40], [middle - 80, middle + 80]);
  await settled(({ wide }) => Math.abs(wide - 15) < 1.5);
  assert.equal(await text(page, "#pause"), "Pause");
  // One finger moves the view, which freezes.
  const live = await seen();
  await move([middle - 60], [middle + 60]);
  assert.equal(await text(page, "#pause"), "Go live");
  const moved = await settled(({ to }) => to < live.to - 3);
  // In the frozen view, the range between two fingers stays between them.
  await move([middle - 80, middle + 80], [middle - 40, middle + 40]);
  const out = await settled(({ wide }) => wide > moved.wide * 1.8);
  assert.ok(Math.abs((out.from + out.to) / 2 - (moved.from + moved.to) / 2) < moved.wide * 0.1, `${JSON.stringify(moved)} to ${JSON.stringify(out)}`);
  assert.equal(await page.evaluate(() => window.visualViewport.scale), 1, "the page itself is not zoomed");
  await page.context().close();
});

test("screen readers: accessible names, a description of the chart, quiet live regions", async (url) => {
  const page = await open(url);
  await ready(page);
  const cdp = await page.context().newCDPSession(page);
  const tree = async () => (await cdp.send("Accessibility.getFullAXTree")).nodes.filter((node) => !node.ignored);
  const role = (nodes, ...roles) => nodes.filter((node) => roles.includes(node.role?.value));
  for (const mode of ["1", "2", "3", "?"]) {
    await page.keyboard.press(mode);
    await drawn(page);
    const unnamed = role(await tree(), "button", "checkbox", "textbox", "searchbox", "combobox", "slider", "grid", "table", "application", "dialog", "toolbar", "group", "region", "columnheader")
      .filter((node) => !node.name?.value)
      .map((node) => `${node.role.value} ${JSON.stringify(node.properties?.slice(0, 3))}`);
    assert.deepEqual(unnamed, [], `all have names after ${mode}`);
  }
  await page.keyboard.press("Escape");
  await page.keyboard.press("1");
  // The accessibility tree follows the page with a short delay.
  const described = async (hold) => {
    let nodes;
    const words = async () => {
      nodes = await tree();
      return role(nodes, "application")[0]?.description?.value ?? "";
    };
    await eventually(page, words, hold);
    return nodes;
  };
  const nodes = await described((words) => /cwnd \d+ .*throughput .*state \w+\. In view: cwnd \d+ to \d+ segments/.test(words));
  assert.deepEqual(role(nodes, "grid").map((node) => node.name.value), ["Flows"]);
  assert.deepEqual(role(nodes, "table").map((node) => node.name.value), ["Events"]);
  const focused = (await text(page, 'tr.flow[aria-selected="true"] .name')).trim();
  await page.keyboard.press("j");
  await until(page, (old) => document.querySelector('tr.flow[aria-selected="true"] .name').textContent !== old, focused);
  const ends = await page.locator('tr.flow[aria-selected="true"] .name').getAttribute("title");
  await described((words) => words.includes(ends.replace(" > ", " to ")));
  await page.keyboard.press(" ");
  await described((words) => words.includes("frozen."));
  await page.keyboard.press("Shift+ArrowLeft");
  assert.match(await text(page, "#announcement"), /cwnd .* throughput .* srtt/);
  await described((words) => /At \d+:\d+:\d+\.\d+: cwnd/.test(words));
  await page.keyboard.press("l");
  await page.keyboard.press("Escape");
  // Live regions announce the user's actions and errors, not each changed number.
  const spoken = await page.evaluate(async () => {
    const announced = [];
    const watcher = new MutationObserver((changes) => announced.push(...changes.map(({ target }) => (target.parentElement ?? target).id)));
    for (const region of document.querySelectorAll('[aria-live], [role="status"], [role="alert"], [role="log"], output')) {
      if (region.offsetParent !== null || region.classList.contains("sr")) watcher.observe(region, { subtree: true, childList: true, characterData: true });
    }
    const before = document.querySelector("#account").textContent;
    for (let n = 0; n < 100 && (n < 30 || document.querySelector("#account").textContent === before); n += 1) await new Promise((resolve) => setTimeout(resolve, 100));
    watcher.disconnect();
    return { announced, moved: document.querySelector("#account").textContent !== before };
  });
  assert.ok(spoken.moved, "the numbers did change meanwhile");
  assert.deepEqual(spoken.announced, []);
  // In the list, arrow keys move the focus from line to line, also after lines are sorted again.
  await page.focus('tr.flow[aria-selected="true"]');
  await page.keyboard.press("ArrowUp");
  await until(page, () => document.activeElement.matches('tr.flow[aria-selected="true"]'));
  const held = await page.evaluate(() => document.activeElement.dataset.id);
  await page.getByRole("button", { name: "srtt" }).evaluate((button) => button.click());
  await until(page, () => document.querySelector('th[aria-sort="descending"]').textContent === "srtt");
  // Sort again with newer values.
  await news(page);
  assert.equal(await page.evaluate(() => document.activeElement.dataset.id), held);
  await page.context().close();
});

test("removed panels leave no nodes and no listeners", async (url) => {
  const page = await open(url);
  await ready(page);
  const use = async (times) => {
    for (let n = 0; n < times; n += 1) {
      for (const key of ["2", "j", "x", "3", "k", "t", "1", "j"]) {
        await page.keyboard.press(key);
        await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
      }
    }
    await page.keyboard.press("1");
    const inDocument = () => page.evaluate(() => {
      const walker = document.createTreeWalker(document, NodeFilter.SHOW_ALL);
      let count = 1;
      while (walker.nextNode()) count += 1;
      return count;
    });
    // The two counts are read one after the other, so retry until the page has drawn nothing large
    // in between.
    for (let tries = 0; tries < 50; tries += 1) {
      const before = await inDocument();
      const { nodes, listeners } = await living(page);
      const kept = await inDocument();
      if (Math.abs(kept - before) < 50) return { outside: nodes - kept, listeners };
    }
    assert.fail("the page does not come to rest");
  };
  const few = await use(3);
  const many = await use(15);
  // Each turn creates more than a hundred nodes and some listeners; a leak would keep thousands.
  assert.ok(many.outside - few.outside < 300, `${few.outside} nodes in no document, later ${many.outside}`);
  assert.ok(many.listeners - few.listeners < 20, `${few.listeners} listeners, later ${many.listeners}`);
  await page.context().close();
});

test("all numbers of a flow are shown, with unit and source, and kept up", async (url) => {
  const page = await open(url);
  await ready(page);
  await page.keyboard.press("i");
  await page.waitForSelector("#numbers[open]");
  const row = (name) => page.evaluate((wanted) => {
    const found = [...document.querySelectorAll("#numbers-body tr")].find((tr) => tr.children[0].textContent === wanted);
    return found && [...found.children].map((td) => td.textContent);
  }, name);
  await until(page, () => document.querySelectorAll("#numbers-body tr").length > 25);
  const [, cwnd, source] = await row("cwnd");
  assert.match(cwnd, /^\d+ segments$/);
  assert.equal(source, "snd_cwnd");
  assert.equal((await row("pacing_wait_us"))[1], "unknown");
  const [, acked] = await row("bytes_acked");
  await until(page, (old) => [...document.querySelectorAll("#numbers-body tr")].some((tr) => tr.children[0].textContent === "bytes_acked" && tr.children[1].textContent !== old), acked);
  await page.keyboard.press("Escape");
  await until(page, () => !document.querySelector("#numbers").open);
  if (shots) {
    await page.click("#numbers-open");
    await until(page, () => document.querySelectorAll("#numbers-body tr").length > 25);
    await page.screenshot({ path: `${shots}/numbers.png` });
  }
  await page.context().close();
});
