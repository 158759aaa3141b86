// All screens of the page, by name: where each is, and what shows that it is whole. `isMain` are those whose
// pictures stand in the documentation.

import { bought, call } from "./api.mjs";

/** Fills the account with something to look at: orders, a cart, a selection to check out. */
export async function furnish(token) {
  const voucher = await bought(token, "1");
  const { checkoutId } = await call("POST", "/cart/checkout", { token });
  const goods = await call("POST", "/order", { token, json: { checkoutId }, headers: { "idempotency-key": "furnished-0001" } });
  for (const [skuId, count] of [["3", 2], ["12", 1]]) await call("POST", "/cart", { token, json: { skuId, count } });
  await call("POST", "/user/sign", { token });
  return { voucher, goods };
}

export const SCREENS = [
  { name: "home", path: () => "/", shows: ".note-card", isMain: true },
  { name: "login", path: () => "/login", shows: "input[name=phone]", guest: true },
  { name: "shops", path: () => "/shops?type=1", shows: ".shop-card", isMain: true },
  { name: "shop", path: () => "/shop/1", shows: ".voucher-grid", isMain: true },
  { name: "map", path: () => "/map", shows: ".compass .dot", isMain: true },
  { name: "search", path: () => "/search?q=the", shows: ".shop-card" },
  { name: "sales", path: () => "/sales", shows: ".sale-card" },
  { name: "sale", path: () => "/sale/1", shows: "[data-do=pay]", isMain: true },
  { name: "goods", path: () => "/goods", shows: ".goods-card", isMain: true },
  { name: "sku", path: () => "/goods/5", shows: "[data-do=add]" },
  { name: "cart", path: () => "/cart", shows: ".cart-row", isMain: true },
  { name: "checkout", path: () => "/checkout", shows: "[data-do=order]" },
  { name: "orders", path: () => "/orders/goods", shows: ".order-card" },
  { name: "orders-voucher", path: () => "/orders/voucher", shows: ".order-card" },
  { name: "order", path: ({ goods }) => `/order/goods/${goods}`, shows: "[data-do=pay]", isMain: true },
  { name: "order-voucher", path: ({ voucher }) => `/order/voucher/${voucher}`, shows: "[data-do=pay]" },
  { name: "note", path: () => "/note/60", shows: ".comment", isMain: true },
  { name: "write", path: () => "/write", shows: "input[name=title]" },
  { name: "feed", path: () => "/feed", shows: ".note-card", isMain: true },
  { name: "me", path: () => "/me", shows: ".ways", isMain: true },
  { name: "person", path: () => "/person/8", shows: ".note-card" },
  { name: "signin", path: () => "/signin", shows: ".calendar", isMain: true },
  { name: "missing", path: () => "/nowhere", shows: ".state.failed" },
];
