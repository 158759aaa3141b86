// The quote for what is selected, at today's prices, and the order made of it.

import { loadCart } from "../account.js";
import { market, now, submissionKey } from "../api.js";
import { el } from "../dom.js";
import { money, t } from "../i18n.js";
import { go, loggedIn, show } from "../router.js";
import { countdown } from "../components/countdown.js";
import { action } from "../components/field.js";
import { explain, toastError } from "../components/toast.js";

/** How long a quote stands. */
const QUOTE_MS = 15 * 60_000;

export default async function checkout({ signal, title }) {
  title(t("checkout"));
  if (!loggedIn()) return null;
  let quote;
  try {
    quote = await market.checkOut();
  } catch (error) {
    // What is wrong with the selection is mended in the cart.
    if (error.status !== 409) throw error;
    toastError(error);
    go("/cart", { replace: true });
    return null;
  }
  // Pressed twice, or again after no answer came, it is one order.
  const key = submissionKey();
  const note = el("p.form-note", { role: "alert" });

  async function place() {
    note.textContent = "";
    const id = await market.order(quote.checkoutId, key);
    await loadCart();
    go(`/order/goods/${id}`, { replace: true });
  }

  function failed(error) {
    if (error.code === "CHECKOUT_USED" && error.data) return go(`/order/goods/${error.data}`, { replace: true });
    const short = quote.items.find((item) => item.skuId === error.data);
    note.replaceChildren(short ? t("checkout.short", { name: short.name }) : explain(error), " ", el("a", { href: "#/cart" }, t("checkout.cart")));
  }

  return el("div.page.narrow-page", el("h1", t("checkout")),
    el("div.card.padded",
      el("table.items", el("caption.unseen", t("checkout.items")),
        el("thead.unseen", el("tr", el("th", { scope: "col" }, t("item")), el("th", { scope: "col" }, t("cart.count")), el("th", { scope: "col" }, t("price")))),
        el("tbody", quote.items.map((item) => el("tr", el("th", { scope: "row" }, item.name),
          el("td", `${item.count} × ${money(item.price)}`), el("td.number", money(item.price * item.count))))),
        el("tfoot", el("tr", el("th", { scope: "row", colspan: 2 }, t("total")), el("td.number", el("strong.price", money(quote.total)))))),
      el("p.soft.small", t("checkout.stands"), " ", countdown(now() + QUOTE_MS, signal, () => show())),
      el("div.actions", action("button", { "data-do": "order" }, t("checkout.do"), place, failed), el("a.button.quiet", { href: "#/cart" }, t("checkout.cart"))),
      note));
}
