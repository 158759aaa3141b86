// Without a mouse: to the content, into an account, into a sale and to a paid order; one always sees where one is.

import assert from "node:assert/strict";
import { note, scenario } from "../kit/stage.mjs";

const MOST_STEPS = 80;

/** What has the focus, and whether that is to be seen. */
const focus = (page) => page.evaluate(() => {
  const node = document.activeElement;
  const box = node.getBoundingClientRect();
  // A link that stands for its whole card has the frame around that.
  const hasFrame = [null, "::after"].map((part) => getComputedStyle(node, part))
    .some(({ outlineStyle, outlineWidth }) => outlineStyle !== "none" && parseFloat(outlineWidth) >= 2);
  return {
    what: `${node.tagName} ${node.getAttribute("aria-label") ?? node.innerText ?? ""}`.slice(0, 60),
    isSeen: hasFrame && box.width > 0 && box.top >= 0 && box.bottom <= innerHeight + 1,
  };
});

/** Presses Tab until the focus is on this. */
async function tabTo(page, selector) {
  for (let step = 1; step <= MOST_STEPS; step += 1) {
    await page.keyboard.press("Tab");
    const { what, isSeen } = await focus(page);
    assert.ok(isSeen, `nobody sees the focus on ${what}`);
    if (await page.evaluate((selector) => document.activeElement.matches(selector), selector)) return step;
  }
  throw new Error(`${selector} is not reached in ${MOST_STEPS} steps`);
}

await scenario(async ({ visit }) => {
  const visitor = await visit();
  const { page } = visitor;
  await page.keyboard.press("Tab");
  assert.match((await focus(page)).what, /Skip to the content/);
  assert.ok((await focus(page)).isSeen);
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "main");
  await page.keyboard.press("Tab");
  assert.ok(await page.evaluate(() => document.querySelector("main").contains(document.activeElement)));

  await page.reload();
  await visitor.settled();
  const toLogin = await tabTo(page, "a[href='#/login']");
  await page.keyboard.press("Enter");
  await visitor.see("h1", "Log in with your phone");
  assert.equal(await page.evaluate(() => document.activeElement.tagName), "H1", "a new screen has the focus on its heading");
  await tabTo(page, "input[name=phone]");
  await page.keyboard.type("13700000004");
  await tabTo(page, "[data-do=code]");
  await page.keyboard.press("Enter");
  await visitor.see(".sent .code");
  await visitor.until("the focus is on the code", () => document.activeElement.name === "code");
  await tabTo(page, "form.card button[type=submit]");
  await page.keyboard.press("Enter");
  await visitor.see(".head-user .avatar");
  await visitor.settled();

  await page.reload();
  await visitor.settled();
  await tabTo(page, "a.brand");
  await page.keyboard.press("Enter");
  await visitor.see("h1", "What the town is up to");
  await visitor.settled();
  const toSale = await tabTo(page, "a[href='#/sale/1']");
  await page.keyboard.press("Enter");
  await visitor.see("h1", "50 for a bowl of 100");
  await tabTo(page, "[data-do=buy]");
  await page.keyboard.press("Enter");
  await visitor.see("[data-do=pay]");
  assert.ok(await page.evaluate(() => document.activeElement.matches(".buy-note")), "the focus is where one is told what happened");
  await tabTo(page, "[data-do=pay]");
  await page.keyboard.press("Enter");
  await visitor.see("[data-do=refund]");

  // A question keeps the focus in it, gives it back, and goes away with Escape.
  await tabTo(page, "[data-do=refund]");
  await page.keyboard.press("Enter");
  await visitor.see("dialog[open]");
  for (let step = 0; step < 4; step += 1) {
    await page.keyboard.press("Tab");
    assert.ok(await page.evaluate(() => document.activeElement === document.body || document.querySelector("dialog").contains(document.activeElement)));
  }
  await page.keyboard.press("Escape");
  await visitor.gone("dialog");
  assert.ok(await page.evaluate(() => document.activeElement.matches("[data-do=refund]")));
  note(`${toLogin} steps to the login, ${toSale} to the sale`);
});
