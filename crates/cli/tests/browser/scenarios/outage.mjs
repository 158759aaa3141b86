// Redis is away: looking around goes on, buying and logging in say that they cannot and what to do; afterwards
// everything goes on by itself.

import assert from "node:assert/strict";
import { request, scenario } from "../kit/stage.mjs";

const MOST_TRIES = 60;

await scenario(async ({ visit }) => {
  const ada = await visit({ size: "phone" });
  await ada.logIn("10000000001");
  await ada.go("/sale/1");
  await ada.see("[data-do=buy]", "Buy now");
  const guest = await visit({ path: "/login" });

  await request("redis away");
  ada.watcher.announce(503, /^\/(voucher-order|readyz)/);
  await ada.press("[data-do=buy]");
  await ada.see(".buy-note.bad", "Press again: you cannot buy it twice.");
  await ada.see(".notice.degraded", "You can look around; buying may have to wait a little.");
  assert.equal(await ada.count(".buy-order .steps"), 0, "nothing was bought");

  guest.watcher.announce(503, /^\/(user\/code|readyz)/);
  await guest.fill("input[name=phone]", "13700000005");
  await guest.press("[data-do=code]");
  await guest.see(".field-error", "Try again in a few seconds; nothing was lost.");
  await guest.see(".notice.degraded");

  // What only reads is as it was.
  for (const [path, seen] of [["/", ".note-card"], ["/shop/2", ".detail h1"], ["/note/1", "article.note h1"], ["/goods", ".goods-card"], ["/cart", ".cart-row"]]) {
    await ada.go(path);
    await ada.see(seen);
  }

  await ada.go("/sale/1");
  await request("redis back");
  await ada.gone(".notice");
  await guest.gone(".notice");
  // Well again does not mean at once for everything: whoever is told to come back does.
  for (let turn = 0; turn < MOST_TRIES && !await ada.page.$("[data-do=pay]"); turn += 1) {
    await ada.press("[data-do=buy]");
    await ada.until("there is an answer", () => document.querySelector("[data-do=pay], .buy-note.bad"));
  }
  await ada.see("[data-do=pay]");
  for (let turn = 0; turn < MOST_TRIES && !await guest.page.$(".sent .code"); turn += 1) {
    await guest.press("[data-do=code]");
    await guest.until("there is an answer", () => document.querySelector(".sent .code, .field-error:not(:empty)"));
  }
  await guest.see(".sent .code");
});
