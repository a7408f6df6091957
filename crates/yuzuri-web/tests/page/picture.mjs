// Saves a screenshot of a page, SECONDS after opening it: node picture.mjs ADDRESS SECONDS FILE.
import { launch } from "./browser.mjs";

const [address, seconds, file] = process.argv.slice(2);
const browser = await launch();
const page = await browser.newPage({ viewport: { width: 1280, height: 800 }, deviceScaleFactor: 1.5, colorScheme: "light" });
await page.goto(address);
await page.waitForTimeout(Number(seconds) * 1000);
await page.screenshot({ path: file });
await browser.close();
