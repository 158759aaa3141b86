// A flash sale: 200 others buy while somebody buys in the page, sees the order become payable, and pays it;
// another one is cancelled and its unit comes back. Sold out and one for each person are said plainly.

import assert from "node:assert/strict";
import { answer, call, crowd, enter, newSale } from "../kit/api.mjs";
import { note, scenario } from "../kit/stage.mjs";

const STOCK = 150;
const OTHERS = 200;
/** With the one in the page they all get one for certain; the rest comes once that one has its answer. */
const FIRST = 100;

const buyAll = (tokens, sale) => Promise.all(tokens.map((token) => answer("POST", `/voucher-order/seckill/${sale}`, { token })));

/** Writes down each state that the order is shown in. */
const recordStates = (page) => page.evaluate(() => {
  window.states = [];
  new MutationObserver(() => {
    const now = document.querySelector(".buy-order .steps .now")?.innerText;
    if (now && now !== window.states.at(-1)) window.states.push(now);
  }).observe(document.querySelector(".buy-panel"), { childList: true, subtree: true });
});

await scenario(async ({ visit }) => {
  const [sale, others] = await Promise.all([newSale("Dumplings at dusk", STOCK), crowd(OTHERS)]);
  const ada = await visit({ size: "phone" });
  await ada.logIn("10000000001");
  await ada.go(`/sale/${sale}`);
  await ada.see(".sale-state", `${STOCK} left`);
  await recordStates(ada.page);
  const answered = ada.page.waitForResponse((response) => response.url().endsWith(`/voucher-order/seckill/${sale}`));
  const first = buyAll(others.slice(0, FIRST), sale);
  await ada.press("[data-do=buy]");
  assert.equal((await answered).status(), 200);
  const second = buyAll(others.slice(FIRST), sale);
  await ada.see(".buy-panel [data-do=pay]", "Pay ¥19.90");
  await ada.see(".buy-note", "It is yours");
  await ada.see(".time-left", /1[45]:\d\d/);
  assert.deepEqual(await ada.page.evaluate(() => window.states), ["Queued", "To be paid"]);
  const codes = [...await first, ...await second].map(({ code }) => code);
  const refused = codes.filter((code) => code === "SOLD_OUT");
  assert.equal(refused.length, OTHERS + 1 - STOCK, `of ${OTHERS} others: ${codes}`);
  await ada.press("[data-do=pay]");
  await ada.see(".toast", "Paid. Thank you.");
  await ada.see(".buy-panel [data-do=refund]");
  await ada.see(".sale-state", "Sold out");
  note(`${codes.length - refused.length} others bought, ${refused.length} were told that it is sold out`);

  // Whoever comes now is told before pressing anything.
  const late = await visit({ path: `/sale/${sale}` });
  await late.see("[data-do=buy]:disabled", "Sold out");

  // Another sale: bought and cancelled, and the unit is there again.
  await ada.go("/sale/1");
  await ada.see(".sale-state", "100 left");
  await ada.press("[data-do=buy]");
  await ada.see("[data-do=pay]");
  await ada.see(".sale-state", "99 left");
  await ada.press("[data-do=cancel]");
  await ada.confirm();
  await ada.see(".steps .now.bad", "Cancelled");
  await ada.see(".sale-state", "100 left");
  await ada.see("[data-do=buy]", "Buy now");

  // Bought elsewhere meanwhile: one for each person, and here is the one that there is.
  const token = await enter("10000000002");
  const bo = await visit({ token, path: "/sale/1" });
  await call("POST", "/voucher-order/seckill/1", { token });
  bo.watcher.announce(409, /^\/voucher-order\/seckill\/1$/);
  await bo.press("[data-do=buy]");
  await bo.see(".buy-note.bad", "One for each person, and you have one already.");
  await bo.see("[data-do=pay]");

  // The last one goes to somebody else between looking and pressing.
  const chen = await visit({ token: await enter("10000000003"), path: "/sale/2" });
  await chen.see(".sale-state", "The last one");
  chen.watcher.announce(409, /^\/voucher-order\/seckill\/2$/);
  await call("POST", "/voucher-order/seckill/2", { token });
  await chen.page.$eval("[data-do=buy]", (button) => button.click());
  await chen.see(".buy-note.bad", "Sold out. When somebody does not pay, some come back");

  // Nobody is logged in: the login, and back to the sale.
  await late.go("/sale/1");
  await late.press("[data-do=buy]");
  await late.see("h1", "Log in with your phone");
  assert.equal(await late.path(), "/login?to=%2Fsale%2F1");
});
