// The watchers and checks of the other scenarios, each shown a bug that it must see.

import assert from "node:assert/strict";
import { inaccessible, repeated, tooWide, untranslated } from "../kit/checks.mjs";
import { scenario } from "../kit/stage.mjs";

/** What a watcher must say, and what makes it say so; each runs in the page. */
const PLANTED = [
  [/console error: planted/, () => console.error("planted")],
  [/console warn: planted/, () => console.warn("planted")],
  [/nobody caught: .*thrown/s, () => { setTimeout(() => { throw new Error("thrown"); }); }],
  [/nobody caught: .*rejected/s, () => { Promise.reject(new Error("rejected")); }],
  [/another host: http:\/\/elsewhere\.invalid\/picture/, () => { new Image().src = "http://elsewhere.invalid/picture"; }],
  [/console error: .*Content Security Policy/, () => {
    document.head.append(Object.assign(document.createElement("script"), { textContent: "window.planted = true" }));
  }],
  [/console error: .*status of 404.*\/planted/, () => { fetch("/planted"); }],
];

/** What a check must find, and what makes it find that. */
const CHECKED = [
  [inaccessible, /critical: button-name/, () => document.querySelector("main").append(document.createElement("button"))],
  [inaccessible, /serious: color-contrast/, () => { document.querySelector("h1").style.color = "#ddd"; }],
  [untranslated, /no text for login\.planted/, () => document.querySelector("main").append("login.planted")],
  [untranslated, /no text for nav\.planted/, () => document.querySelector("h1").setAttribute("aria-label", "nav.planted")],
  [tooWide, /wider than the screen by \d+/, () => { document.querySelector("h1").style.width = "3000px"; }],
];

/** How often is looked whether a finding has come. */
const LOOKS = 200;
const LOOK_MS = 25;

await scenario(async ({ visit }) => {
  const visitor = await visit({ path: "/login" });
  const { page, watcher } = visitor;
  const isSeen = (wanted) => watcher.findings.some((finding) => wanted.test(finding));
  for (const [wanted, plant] of PLANTED) {
    assert.deepEqual(watcher.end(), [], "nothing was planted yet");
    await page.evaluate(plant);
    for (let look = 0; look < LOOKS && !isSeen(wanted); look += 1) await new Promise((done) => setTimeout(done, LOOK_MS));
    assert.ok(isSeen(wanted), `${wanted} is not seen, but: ${watcher.findings}`);
    await page.waitForNetworkIdle();
    watcher.forgive();
  }
  watcher.announce(503, /never/);
  assert.match(watcher.end().join(), /announced and never came/);
  watcher.forgive();

  for (const [check, wanted, plant] of CHECKED) {
    await visitor.reload();
    assert.deepEqual(await check(visitor), [], "nothing was planted yet");
    await page.evaluate(plant);
    assert.match((await check(visitor)).join("\n"), wanted);
  }
  assert.deepEqual(repeated(["a", "b", "a"]), ["a"]);
});
