// One flash sale: what it is, how many are left, and buying it.

import { market } from "../api.js";
import { el, every, redrawn } from "../dom.js";
import { dateTime, t } from "../i18n.js";
import { store } from "../store.js";
import { buyPanel } from "../components/buy.js";
import { prices, saleState, saleTime, stockBadge } from "../components/card.js";
import { icon } from "../components/icon.js";
import { paths, picture } from "../components/picture.js";

const REFRESH_MS = 2_000;
const LIVES = ["QUEUED", "UNPAID", "PAID", "USED", "REFUNDING"];

async function find(id) {
  const sale = (await market.sales()).find((one) => one.id === id);
  if (!sale) throw Object.assign(new Error("no such sale"), { status: 404, code: "UNKNOWN_VOUCHER" });
  return sale;
}

export default async function saleScreen({ params, signal, title }) {
  const sale = await find(params.id);
  title(sale.title);
  const shop = await market.shop(sale.shopId).catch(() => null);
  const stock = el("div.row.sale-state");
  const fresh = redrawn(signal);
  let shown = "";
  function drawStock() {
    const state = `${saleState(sale)} ${sale.stock}`;
    if (state === shown) return;
    shown = state;
    stock.replaceChildren(stockBadge(sale), saleTime(sale, fresh(), refresh));
  }
  const panel = buyPanel(sale, signal, refresh);
  async function refresh() {
    try {
      panel.update(await find(sale.id));
      drawStock();
    } catch { /* The notice above says it; the next round asks again. */ }
  }
  drawStock();
  every(REFRESH_MS, signal, refresh);
  if (store.get("user")) {
    const orders = await market.voucherOrders().catch(() => []);
    const mine = orders.find((order) => order.voucherId === sale.id && LIVES.includes(order.status));
    if (mine) panel.resume(mine.id).catch(() => {});
  }
  return el("div.page.detail", el("div.detail-head",
    shop ? el("a.sale-shop", { href: `#/shop/${shop.id}` }, picture(paths(shop.images)[0], ""), el("span", icon("shop"), shop.name)) : null,
    el("div.card.padded.sale-detail",
      el("p.eyebrow", icon("bolt"), t("sale")),
      el("h1", sale.title), el("p.soft", sale.subTitle), prices(sale), stock, panel.node,
      el("dl.facts",
        el("div", el("dt", t("sale.window")), el("dd", `${dateTime(sale.beginTime)} – ${dateTime(sale.endTime)}`)),
        el("div", el("dt", t("voucher.rules")), el("dd", sale.rules || "–")),
        el("div", el("dt", t("sale.each")), el("dd", t("sale.each.text")))))));
}
