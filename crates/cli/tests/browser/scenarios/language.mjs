// English and Chinese: switched by a button, remembered, and every text there in both.

import assert from "node:assert/strict";
import { PAGE, scenario } from "../kit/stage.mjs";

/** Texts that are the same in both languages. */
const SAME = new Set(["brand.short", "footer.api", "map.north"]);

async function words(name) {
  const source = await (await fetch(`${PAGE}/web/words/${name}.js`)).text();
  return (await import(`data:text/javascript,${encodeURIComponent(source)}`)).default;
}

await scenario(async ({ visit }) => {
  const [english, chinese] = await Promise.all([words("en"), words("zh")]);
  assert.deepEqual(Object.keys(english).sort(), Object.keys(chinese).sort());
  for (const [key, text] of Object.entries(english)) {
    assert.equal(typeof chinese[key], typeof text, key);
    if (typeof text === "string" && !SAME.has(key)) assert.notEqual(chinese[key], text, `${key} is not translated`);
  }

  const visitor = await visit({ size: "phone" });
  const language = () => visitor.page.evaluate(() => document.documentElement.lang);
  await visitor.see("h1", english["home.title"]);
  assert.equal(await language(), "en");
  await visitor.press(".head .language");
  await visitor.see("h1", chinese["home.title"]);
  assert.equal(await language(), "zh-CN");
  await visitor.see("nav.bottom", chinese["nav.shops"]);
  await visitor.reload();
  await visitor.see("h1", chinese["home.title"]);
  assert.equal(await language(), "zh-CN", "set before anything else runs");
  await visitor.go("/login");
  await visitor.see("h1", chinese["login.title"]);
  await visitor.press(".head .language");
  await visitor.see("h1", english["login.title"]);
  assert.equal(await language(), "en");

  // Whoever has not chosen gets the browser's language.
  const other = await visit({ prepare: (page) => page.evaluateOnNewDocument(() => {
    Object.defineProperty(navigator, "language", { value: "zh-TW" });
  }) });
  await other.see("h1", chinese["home.title"]);
});
