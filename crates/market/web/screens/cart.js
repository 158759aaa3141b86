// The cart: what is in it, how many, and what of it is to be bought.

import { loadCart } from "../account.js";
import { market } from "../api.js";
import { el } from "../dom.js";
import { money, t } from "../i18n.js";
import { go, loggedIn } from "../router.js";
import { action } from "../components/field.js";
import { icon } from "../components/icon.js";
import { picture } from "../components/picture.js";
import { empty } from "../components/states.js";
import { stepper } from "../components/stepper.js";
import { toastError } from "../components/toast.js";

export default async function cart({ title }) {
  title(t("cart"));
  if (!loggedIn()) return null;
  let lines = await market.cart();
  const body = el("div");
  const node = el("div.page", el("h1", { tabIndex: -1 }, t("cart")), body);
  const sum = el("strong.price");
  const number = el("span.soft");
  const checkOut = el("a.button", { href: "#/checkout" }, t("cart.checkout"));

  function drawSum() {
    const bought = lines.filter((line) => line.selected && line.onShelf);
    const units = bought.reduce((all, line) => all + line.count, 0);
    sum.textContent = money(bought.reduce((all, line) => all + line.price * line.count, 0));
    number.textContent = t("cart.units", { count: units });
    checkOut.classList.toggle("off", units === 0);
    if (units) checkOut.setAttribute("href", "#/checkout");
    else checkOut.removeAttribute("href");
  }

  /** Shows the change at once; when the service says no, shows what is there. */
  async function change(line, values) {
    Object.assign(line, values);
    drawSum();
    try {
      await market.changeCart(line.skuId, values);
    } catch (error) {
      toastError(error);
      await read();
    }
    await loadCart();
  }

  async function read() {
    lines = await market.cart().catch(() => lines);
    draw();
  }

  function row(line) {
    const name = line.name || t("goods.gone");
    const box = el("input", { type: "checkbox", checked: line.selected, disabled: !line.onShelf, "aria-label": t("cart.select", { name }), onchange: () => change(line, { selected: box.checked }) });
    const dearer = line.price - line.addPrice;
    return el("li", el("article.card.cart-row", box, picture(line.image),
      el("div.cart-text", el("h2", el("a", { href: `#/goods/${line.skuId}` }, name)),
        el("p", el("strong", money(line.price)), " ",
          dearer === 0 ? null : el("span.soft.small", t(dearer > 0 ? "cart.dearer" : "cart.cheaper", { price: money(line.addPrice) }))),
        line.onShelf ? null : el("p.bad.small", t("cart.off"))),
      el("div.cart-tools",
        stepper({ value: line.count, label: t("cart.count.of", { name }), changed: (count) => change(line, { count }) }).node,
        action("button.plain", { "aria-label": t("cart.remove", { name }) }, icon("trash"), async () => {
          await market.removeFromCart(line.skuId);
          lines = lines.filter((other) => other !== line);
          draw();
          node.querySelector("h1").focus();
          await loadCart();
        }, toastError))));
  }

  function draw() {
    if (!lines.length) {
      body.replaceChildren(empty(t("cart.empty"), { sign: "cart", action: { href: "#/goods", text: t("cart.shop") } }));
      return;
    }
    body.replaceChildren(el("ul.plain-list.stack", lines.map(row)),
      el("div.card.padded.sum-bar", el("div", number, " ", sum), checkOut));
    drawSum();
  }

  checkOut.addEventListener("click", (event) => { if (!checkOut.hasAttribute("href")) { event.preventDefault(); go("/cart"); } });
  draw();
  return node;
}
