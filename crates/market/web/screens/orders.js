// One's orders, goods and vouchers, newest first.

import { market } from "../api.js";
import { el } from "../dom.js";
import { dateTime, money, t } from "../i18n.js";
import { loggedIn, show } from "../router.js";
import { scrollList } from "../components/list.js";
import { timeLeft } from "../components/order-actions.js";
import { empty } from "../components/states.js";
import { statusBadge } from "../components/steps.js";

const ROWS = 10;

/** Orders go on after the last one of a page. */
const after = (ask) => async (last) => {
  const items = await ask(last);
  return { items, next: items.length < ROWS ? undefined : items.at(-1).id };
};

function card(kind, order, what, cents, signal) {
  return el("article.card.order-card", el("div.card-text",
    el("div.row.between", statusBadge(order.status), el("time.soft.small", { datetime: order.createTime }, dateTime(order.createTime))),
    el("h2", el("a.cover", { href: `#/order/${kind}/${order.id}` }, what)),
    el("div.row.between", cents === undefined ? el("span") : el("strong.price", money(cents)), timeLeft(order, signal, show) ?? "")));
}

export default async function orders({ params, signal, title }) {
  title(t("orders"));
  if (!loggedIn()) return null;
  const kind = params.kind === "voucher" ? "voucher" : "goods";
  const sales = kind === "voucher" ? await market.knownSales().catch(() => []) : [];
  const draw = {
    goods(order) {
      const what = order.items.map((item) => (item.count > 1 ? `${item.name} × ${item.count}` : item.name)).join(", ");
      return card("goods", order, what || t("order.goods"), order.total, signal);
    },
    voucher(order) {
      const sale = sales.find((one) => one.id === order.voucherId);
      return card("voucher", order, sale?.title ?? t("order.voucher"), sale?.payValue, signal);
    },
  };
  const action = kind === "goods" ? { href: "#/goods", text: t("nav.goods") } : { href: "#/sales", text: t("home.sales") };
  const list = scrollList({
    load: after(kind === "goods" ? (last) => market.goodsOrders(last) : (last) => market.voucherOrders(last)),
    draw: draw[kind], className: "stack", signal, nothing: () => empty(t(`orders.none.${kind}`), { sign: "receipt", action }),
  });
  return el("div.page.narrow-page", el("h1", t("orders")),
    el("nav.chips", { "aria-label": t("orders") }, ["goods", "voucher"].map((name) =>
      el("a", { href: `#/orders/${name}`, "aria-current": name === kind ? "true" : undefined }, t(`orders.${name}`)))),
    list.node);
}
