// Goods on the shelf.

import { loadCart } from "../account.js";
import { market } from "../api.js";
import { el } from "../dom.js";
import { t } from "../i18n.js";
import { loggedIn } from "../router.js";
import { goodsCard } from "../components/card.js";
import { action } from "../components/field.js";
import { icon } from "../components/icon.js";
import { byTotal, scrollList } from "../components/list.js";
import { toast, toastError } from "../components/toast.js";

/** Puts one into the cart and says so. */
export async function putIn(sku, count) {
  if (!loggedIn()) return;
  await market.addToCart(sku.id, count);
  toast(t("cart.added", { name: sku.name }), { kind: "good", link: { href: "#/cart", text: t("cart.see") } });
  await loadCart();
}

export const keep = true;

export default function goods({ signal, title }) {
  title(t("nav.goods"));
  const draw = (sku) => goodsCard(sku, action("button.round.above", { "aria-label": t("cart.add", { name: sku.name }), "data-do": "add" }, icon("cart"), () => putIn(sku, 1), toastError));
  const list = scrollList({ load: byTotal((page) => market.goods(page)), draw, className: "goods-grid", shape: "cards", label: t("nav.goods"), signal });
  return el("div.page", el("h1", t("nav.goods")), el("p.soft", t("goods.text")), el("h2.unseen", t("results")), list.node);
}
