// One order: how far it is, what it is, how long it waits, and what can be done.

import { market } from "../api.js";
import { el, every, redrawn, replaceIn } from "../dom.js";
import { dateTime, money, t } from "../i18n.js";
import { loggedIn } from "../router.js";
import { watch } from "../components/buy.js";
import { orderActions, timeLeft } from "../components/order-actions.js";
import { steps } from "../components/steps.js";

const REFRESH_MS = 5_000;

async function titleOf(kind, order) {
  if (kind === "goods") return { text: t("order.goods"), cents: order.total };
  const sale = (await market.knownSales().catch(() => [])).find((one) => one.id === order.voucherId);
  return { text: sale?.title ?? t("order.voucher"), cents: sale?.payValue, href: sale ? `#/sale/${sale.id}` : undefined };
}

function items(order) {
  return el("table.items", el("caption.unseen", t("checkout.items")),
    el("tbody", order.items.map((item) => el("tr",
      el("th", { scope: "row" }, el("a", { href: `#/goods/${item.skuId}` }, item.name)),
      el("td", `${item.count} × ${money(item.price)}`), el("td.number", money(item.price * item.count))))),
    el("tfoot", el("tr", el("th", { scope: "row", colspan: 2 }, t("total")), el("td.number", el("strong.price", money(order.total))))));
}

export default async function orderScreen({ params, signal, title }) {
  if (!loggedIn()) return null;
  const kind = params.kind === "voucher" ? "voucher" : "goods";
  const read = () => (kind === "voucher" ? market.voucherOrder(params.id, { signal }) : market.goodsOrder(params.id, { signal }));
  const first = await read();
  const about = await titleOf(kind, first);
  title(about.text);
  const state = el("div", { "aria-live": "polite" });
  const times = el("dl.facts");
  const fresh = redrawn(signal);
  let shown = {};

  function draw(order) {
    if (order.status === shown.status) return;
    shown = order;
    replaceIn(state, state, steps(order.status, kind), el("p.order-says", t(`order.says.${order.status}`)),
      timeLeft(order, fresh(), again) ?? "", orderActions(kind, order, about.cents, (after) => { if (after) draw(after); again(); }) ?? "");
    const fact = (word, time) => (time ? el("div", el("dt", t(word)), el("dd", dateTime(time))) : null);
    times.replaceChildren(...[el("div", el("dt", t("order.number")), el("dd.code", order.id)), fact("order.made", order.createTime),
      fact("order.paid", order.payTime), fact("order.used", order.useTime), fact("order.refunded", order.refundTime)].filter(Boolean));
  }
  const again = () => watch(read, draw, signal).catch(() => {});

  draw(first);
  if (first.status !== "UNPAID") again();
  // It may be paid, cancelled or used elsewhere, or time out.
  every(REFRESH_MS, signal, () => { if (["UNPAID", "QUEUED", "PAID", "REFUNDING"].includes(shown.status)) again(); });
  return el("div.page.narrow-page",
    el("p.eyebrow", el("a", { href: `#/orders/${kind}` }, t("orders"))),
    el("h1", about.href ? el("a.quiet-link", { href: about.href }, about.text) : about.text),
    el("div.card.padded", state, kind === "goods" ? items(first) : about.cents === undefined ? null : el("p.prices", el("strong", money(about.cents))), times));
}
