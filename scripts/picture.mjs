// Takes the picture of README from a page that is being served: node scripts/picture.mjs URL FILE [SECONDS]
// Needs what `make test` installs.
import { createRequire } from "node:module";
const require = createRequire(new URL("../crates/yuzuri-web/tests/page/", import.meta.url));
const { chromium } = require("playwright-core");
const [url, file, seconds = "0"] = process.argv.slice(2);
const args = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"];
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args });
const page = await browser.newPage({ viewport: { width: 1280, height: 800 }, colorScheme: process.env.SCHEME ?? "light" });
await page.goto(url);
await page.waitForTimeout(Number(seconds) * 1000);
await page.screenshot({ path: file });
await browser.close();
