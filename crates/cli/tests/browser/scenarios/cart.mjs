// From the shelf to an order: put in, changed, checked out, paid and refunded; another one cancelled.

import assert from "node:assert/strict";
import { scenario } from "../kit/stage.mjs";

/** Two things on the shelf. */
const [FIRST, SECOND] = ["5", "8"];
const digits = (text) => Number(text.replace(/[^\d.]/g, ""));

await scenario(async ({ visit }) => {
  const dora = await visit({ size: "phone" });
  await dora.logIn("13700000003");
  await dora.go("/cart");
  await dora.see(".state", "Your cart is empty.");

  // One from the list, three from its own screen.
  await dora.go("/goods");
  await dora.see(".goods-card");
  await dora.press(".goods-card:has(a[href='#/goods/" + FIRST + "']) [data-do=add]");
  await dora.see(".toast", "is in your cart.");
  await dora.see(".head-link .count", "1");
  await dora.go(`/goods/${SECOND}`);
  const left = digits(await dora.text(".badge.open"));
  const price = digits(await dora.text(".prices strong"));
  await dora.press(".stepper button:last-child");
  await dora.press(".stepper button:last-child");
  await dora.press("[data-do=add]");
  await dora.see(".head-link .count", "4");

  // In the cart the first is put aside and the second becomes two.
  const row = (id, rest) => `.cart-row:has(a[href='#/goods/${id}']) ${rest}`;
  await dora.go("/cart");
  assert.equal(await dora.count(".cart-row"), 2);
  await dora.press(row(FIRST, "input[type=checkbox]"));
  await dora.see(".sum-bar", "3 units selected");
  await dora.press(row(SECOND, ".stepper button:first-child"));
  await dora.see(".sum-bar", "2 units selected");
  await dora.see(".head-link .count", "3");
  assert.equal(digits(await dora.text(".sum-bar .price")), 2 * price);

  await dora.press(".sum-bar .button");
  await dora.see("h1", "Check out");
  await dora.see(".items tbody", "2 × ");
  assert.equal(digits(await dora.text(".items tfoot .price")), 2 * price);
  await dora.press("[data-do=order]");
  await dora.see(".steps .now", "To be paid");
  await dora.see(".time-left", /1[45]:\d\d/);
  const before = await dora.text(".time-left .countdown");
  await dora.until("time runs", (before) => document.querySelector(".time-left .countdown").innerText !== before, before);
  await dora.see(".head-link .count", "1");
  await dora.press("[data-do=pay]");
  await dora.see(".steps .now", "Paid");
  await dora.go(`/goods/${SECOND}`);
  assert.equal(digits(await dora.text(".badge.open")), left - 2);
  await dora.page.goBack();
  await dora.press("[data-do=refund]");
  await dora.confirm();
  await dora.see(".steps .now", "Refunded");
  await dora.see(".order-says", "Your money is back.");

  // What was put aside is still there; ordered and cancelled, it is back on the shelf.
  await dora.go(`/goods/${FIRST}`);
  const shelf = digits(await dora.text(".badge.open"));
  await dora.go("/cart");
  await dora.press(row(FIRST, "input[type=checkbox]"));
  await dora.press(".sum-bar .button");
  await dora.press("[data-do=order]");
  await dora.press("[data-do=cancel]");
  await dora.confirm();
  await dora.see(".steps .now.bad", "Cancelled");
  await dora.go(`/goods/${FIRST}`);
  await dora.see(".badge.open", `${shelf} in stock`);
  await dora.go("/orders/goods");
  await dora.see(".order-card .badge", "Cancelled");
  assert.equal(await dora.count(".order-card"), 2);
  await dora.go("/cart");
  await dora.see(".state", "Your cart is empty.");
});
