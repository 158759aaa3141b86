// What is asked of every screen, each answering what is wrong.

import { axeSource } from "./stage.mjs";

/** Impacts that are no matter of taste. */
const SERIOUS = new Set(["serious", "critical"]);
/** What a text looks like that has no words: its key. */
const KEY = /^[a-z]+(\.[\w]+)+$/;

/** Serious findings of axe-core. */
export async function inaccessible({ page }) {
  await page.evaluate(`window.axe ?? (() => { ${axeSource()} })()`);
  const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) => violations.map(
    ({ id, impact, help, nodes }) => ({ id, impact, help, where: nodes.slice(0, 3).map(({ html, failureSummary }) => `${html.slice(0, 160)} ${failureSummary}`) }))));
  return found.filter(({ impact }) => SERIOUS.has(impact))
    .map(({ id, impact, help, where }) => `axe, ${impact}: ${id} (${help})\n    ${where.join("\n    ")}`);
}

/** Keys that are shown instead of their texts. */
export async function untranslated({ page }) {
  const texts = await page.evaluate(() => {
    const all = [document.title];
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) all.push(walk.currentNode.data);
    for (const node of document.querySelectorAll("[aria-label], [placeholder], [title], [alt]")) {
      for (const name of ["aria-label", "placeholder", "title", "alt"]) all.push(node.getAttribute(name) ?? "");
    }
    return all;
  });
  return [...new Set(texts.map((text) => text.trim()))].filter((text) => KEY.test(text)).map((text) => `no text for ${text}`);
}

/** How far the page is wider than the screen. */
export async function tooWide({ page }) {
  const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  return over > 0 ? [`wider than the screen by ${over} pixels`] : [];
}

/** What comes more than once. */
export const repeated = (list) => list.filter((item, at) => list.indexOf(item) !== at);
