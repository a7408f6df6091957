// Saves the README's picture from a running page: node scripts/picture.mjs URL FILE [SECONDS]
// Needs the packages that `make test` installs.
import { launch } from "../crates/yuzuri-web/tests/page/browser.mjs";
const [url, file, seconds = "0"] = process.argv.slice(2);
const browser = await launch();
const page = await browser.newPage({ viewport: { width: 1280, height: 800 }, colorScheme: process.env.SCHEME ?? "light" });
await page.goto(url);
await page.waitForTimeout(Number(seconds) * 1000);
await page.screenshot({ path: file });
await browser.close();
