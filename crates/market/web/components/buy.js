// Buying in a flash sale: an answer at once, and the order as it goes from queued to paid.

import { market } from "../api.js";
import { el, moveFocus, pause, redrawn, replaceIn } from "../dom.js";
import { t } from "../i18n.js";
import { loggedIn } from "../router.js";
import { saleState } from "./card.js";
import { action } from "./field.js";
import { orderActions, timeLeft } from "./order-actions.js";
import { steps } from "./steps.js";
import { explain } from "./toast.js";

const POLL_MS = 500;
const POLLS = 120;
/** What is on its way to another state by itself. */
const MOVING = new Set(["QUEUED", "REFUNDING"]);

/** Asks for an order until it rests; `draw` gets each state. */
export async function watch(read, draw, signal) {
  for (let poll = 0; poll < POLLS; poll += 1) {
    const order = await read();
    if (signal.aborted) return;
    draw(order);
    if (!MOVING.has(order.status)) return;
    await pause(POLL_MS, signal);
  }
}

/** The panel under a sale; `changed` is called whenever the stock may have. */
export function buyPanel(sale, signal, changed) {
  const note = el("p.buy-note", { role: "status" });
  const area = el("div.buy-order", { "aria-live": "polite" });
  const button = action("button.large", { "data-do": "buy" }, "", buy, refused);
  const node = el("div.buy-panel", button, note, area);
  const fresh = redrawn(signal);
  let order = null;

  function say(text, kind = "") {
    note.className = `buy-note ${kind}`;
    note.textContent = text;
  }

  /** The button says itself why it cannot be pressed. */
  function draw() {
    const state = saleState(sale);
    const lives = order && !["CANCELLED", "REFUNDED", "FAILED"].includes(order.status);
    const hadFocus = document.activeElement === button;
    button.hidden = Boolean(lives);
    if (lives && hadFocus) moveFocus(note);
    button.disabled = state !== "open";
    button.textContent = t(`buy.${state}`);
  }

  async function buy() {
    if (!loggedIn()) return;
    say(t("buy.sending"));
    const id = await market.buy(sale.id);
    say(t("buy.reserved"), "good");
    await follow(id, { first: { id, status: "QUEUED", createTime: new Date().toISOString() } });
    changed();
  }

  /** Shows an order and how it moves on; says so unless something else was said. */
  async function follow(id, { first, isSaid = false } = {}) {
    if (first) drawOrder(first);
    await watch(() => market.voucherOrder(id, { signal }), (now) => {
      drawOrder(now);
      if (now.status === "UNPAID" && !isSaid) say(t("buy.yours"), "good");
      if (now.status === "FAILED") say(t("buy.failed"), "bad");
    }, signal);
  }

  /** The same state is not drawn again: somebody may be about to press a button of it. */
  function drawOrder(now) {
    const isDrawn = order?.id === now.id && order.status === now.status;
    order = now;
    if (isDrawn) return;
    const again = () => follow(order.id).catch((error) => { if (!signal.aborted) say(explain(error), "bad"); }).then(changed);
    replaceIn(area, note, steps(order.status), timeLeft(order, fresh(), again) ?? "",
      orderActions("voucher", order, sale.payValue, (after) => {
        say("");
        if (after) drawOrder(after);
        again();
      }) ?? "",
      el("p", el("a", { href: `#/order/voucher/${order.id}` }, t("buy.see"))));
    draw();
  }

  function refused(error) {
    if (signal.aborted) return;
    if ((error.code === "DUPLICATE_ORDER" || error.code === "ORDER_UNDECIDED") && error.data) {
      say(t(`error.${error.code}`), "bad");
      follow(error.data, { isSaid: true }).catch(() => {});
    } else {
      // Without an answer nobody knows whether it was bought; asking again cannot buy twice.
      const isUnknown = error.code === "OFFLINE" || error.status === 503 || error.status === 408;
      say(isUnknown ? t("buy.unknown") : explain(error), "bad");
    }
    changed();
  }

  draw();
  return {
    node,
    /** Takes over what the service says about the sale now. */
    update(newer) { Object.assign(sale, newer); draw(); },
    /** Shows an order that was there before. */
    resume: (id) => follow(id),
  };
}
