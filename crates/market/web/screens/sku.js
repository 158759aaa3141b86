// One thing to buy.

import { market } from "../api.js";
import { el } from "../dom.js";
import { count, money, t } from "../i18n.js";
import { action } from "../components/field.js";
import { picture } from "../components/picture.js";
import { stepper } from "../components/stepper.js";
import { toastError } from "../components/toast.js";
import { putIn } from "./goods.js";

const FEW = 10;

export default async function skuScreen({ params, title }) {
  const [sku, stock] = await Promise.all([market.sku(params.id), market.stock(params.id).catch(() => null)]);
  title(sku.name);
  const left = stock?.total?.left ?? stock?.num;
  const canBuy = sku.onShelf && left !== 0;
  const number = stepper({ value: 1, most: Math.max(1, Math.min(999, left ?? 999)), label: t("cart.count") });
  const badge = !sku.onShelf ? el("span.badge.gone", t("goods.off"))
    : left === 0 ? el("span.badge.gone", t("sale.gone"))
      : left === undefined ? null : el(`span.badge.open${left <= FEW ? ".few" : ""}`, t("goods.left", { count: count(left) }));
  return el("div.page.detail", el("div.detail-head",
    picture(sku.image, sku.name, "big"),
    el("div.card.padded", el("h1", sku.name),
      el("p.prices", el("strong", money(sku.price))),
      el("p.soft", t("goods.vip", { price: money(sku.vipPrice) })), badge,
      canBuy ? el("div.actions", number.node, action("button", { "data-do": "add" }, t("cart.put"), () => putIn(sku, number.value), toastError)) : el("p.soft", t("goods.cannot")),
      el("p", el("a", { href: "#/goods" }, t("goods.back"))))));
}
