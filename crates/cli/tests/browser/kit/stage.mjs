// One scenario: a browser, visitors in it, and an end that is only good when no watcher saw anything.
//
// The Rust test beside it says by the environment where the service is (PAGE), where npm put its packages
// (CLIENTS), where pictures of failures go (OUT) and where those of screens go (SHOTS). What only the test can
// do, such as stopping a store, is asked of it by a line on the output and answered by one on the input.

import { once } from "node:events";
import { createRequire } from "node:module";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import readline from "node:readline";
import { Visitor } from "./visitor.mjs";

const need = (name) => process.env[name] ?? fail(`${name} is not set: run this by \`cargo xtask test\``);
const fail = (text) => { throw new Error(text); };

export const PAGE = need("PAGE");
const OUT = need("OUT");
const require = createRequire(path.join(need("CLIENTS"), "package.json"));
const bring = (name) => { try { return require(name); } catch { return fail(`there is no ${name}: \`cargo xtask setup\` installs it`); } };
const puppeteer = bring("puppeteer-core");
export const axeSource = () => bring("axe-core").source;

/** Characters of the page's text that a failure shows. */
const EXCERPT = 600;

function chromium() {
  const found = process.env.PATH.split(":").map((folder) => path.join(folder, "chromium")).find(existsSync);
  return found ?? fail("there is no chromium: `cargo xtask setup` installs it");
}

const launch = () => puppeteer.launch({
  executablePath: chromium(),
  // It ends with this process, however that ends.
  pipe: true,
  args: [
    ...(process.getuid() === 0 ? ["--no-sandbox"] : []),
    "--disable-gpu", "--lang=en-US", "--force-color-profile=srgb", "--font-render-hinting=none",
    // Whatever asks for another host is seen by a watcher, and reaches nobody.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
  ],
});

/** Asks the test for something, and waits until it is done. */
export async function request(what) {
  const input = readline.createInterface({ input: process.stdin });
  const answered = Promise.race([once(input, "line"), once(input, "close")]);
  console.log(`@${what}`);
  const [line] = await answered;
  input.close();
  if (line !== "done") fail(`the test did not do “${what}”`);
}

/** Says what a step has shown; the test prints it when something fails. */
export const note = (...words) => console.log(...words);

/** Leaves behind what was seen last. */
async function leaveTrace(name, visitor, nth) {
  mkdirSync(OUT, { recursive: true });
  const file = path.join(OUT, nth ? `${name}-${nth + 1}` : name);
  const page = visitor.page;
  const seen = await page.evaluate(() => `${location.href}\n\n${document.body?.innerText}`).catch((error) => String(error));
  writeFileSync(`${file}.txt`, seen);
  await page.screenshot({ path: `${file}.png` }).catch(() => {});
  return `${file}.png (and .txt): ${seen.replace(/\s+/g, " ").slice(0, EXCERPT)}`;
}

/** Runs `work({ visit })`; `visit(options)` opens the page as somebody. */
export async function scenario(work) {
  const name = path.basename(process.argv[1], ".mjs") + process.argv.slice(2).map((word) => `-${word}`).join("");
  const browser = await launch();
  const visitors = [];
  async function visit(options = {}) {
    const visitor = await Visitor.open(await browser.createBrowserContext(), PAGE, options);
    visitors.push(visitor);
    return visitor;
  }
  try {
    await work({ visit });
    const findings = visitors.flatMap(({ watcher }) => watcher.end());
    if (findings.length) fail(`the watchers saw:\n  ${findings.join("\n  ")}`);
  } catch (error) {
    console.error(`${name}: ${error.stack ?? error}`);
    for (const [nth, visitor] of visitors.entries()) {
      for (const finding of visitor.watcher.findings) console.error(`  watcher: ${finding}`);
      console.error(`  the last that was seen is ${await leaveTrace(name, visitor, nth)}`);
    }
    process.exitCode = 1;
  } finally {
    await browser.close().catch(() => {});
  }
}
