// Signing in: today is marked, the streak goes on, and the months before can be looked at.

import assert from "node:assert/strict";
import { call, enter } from "../kit/api.mjs";
import { scenario } from "../kit/stage.mjs";

await scenario(async ({ visit }) => {
  // Somebody new begins with one day.
  const fresh = await visit({ size: "phone" });
  await fresh.logIn("13700000002");
  await fresh.go("/signin");
  await fresh.see(".streak", "0 days in a row");
  assert.equal(await fresh.count("td.signed"), 0);
  assert.equal(await fresh.count(".calendar thead th"), 7);
  await fresh.press("[data-do=sign]");
  await fresh.see("td.today.signed");
  await fresh.see(".streak", "1 day in a row");
  await fresh.see(".toast", "Signed in: 1 day in a row.");
  await fresh.see("[data-do=sign]:disabled", "Signed in today");
  await fresh.reload();
  await fresh.see("td.today.signed");

  // Ada was there on each of the last 61 days, over the end of a month.
  const token = await enter("10000000001");
  const ada = await visit({ token, path: "/signin" });
  await ada.see(".streak", "61 days in a row");
  await ada.press("[data-do=sign]");
  await ada.see(".streak", "62 days in a row");
  assert.equal(await call("GET", "/user/sign/count", { token }), 62);
  const now = await ada.text(".month h2");
  await ada.press(".month button:first-child");
  await ada.until("another month is shown", (now) => document.querySelector(".month h2").innerText !== now, now);
  assert.equal(await ada.count("td.today"), 0);
  const days = await ada.page.$$eval("tbody td span:first-child", (cells) => cells.length);
  assert.equal(await ada.count("td.signed"), days, "the month before without a gap");
  await ada.press(".month button:last-child");
  await ada.see("td.today.signed");
  await ada.see(".month button:last-child:disabled");
});
