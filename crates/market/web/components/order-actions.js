// Pay, cancel and refund, and how long an order still waits; the same for vouchers and goods.

import { act } from "../api.js";
import { el } from "../dom.js";
import { money, t } from "../i18n.js";
import { countdown } from "./countdown.js";
import { confirmed } from "./dialog.js";
import { action } from "./field.js";
import { icon } from "./icon.js";
import { toast, toastError } from "./toast.js";

/** How long an order waits when the service does not say. */
const WAITS_MS = 15 * 60_000;

/** When an unpaid order ends, in milliseconds. */
export const paidBefore = (order) => (order.payBefore ? Date.parse(order.payBefore) : Date.parse(order.createTime) + WAITS_MS);

export function timeLeft(order, signal, over) {
  if (order.status !== "UNPAID") return null;
  return el("p.row.tight.time-left", icon("clock"), t("order.left"), countdown(paidBefore(order), signal, over));
}

/** The buttons of what can be done now; `changed(order)` gets the order as it is afterwards, or nothing when one has to look. */
export function orderActions(kind, order, cents, changed) {
  const run = (name) => async () => {
    const after = await act(kind, order.id, name);
    toast(t(`done.${name}`), { kind: "good" });
    changed(after);
  };
  const failed = (error) => {
    toastError(error);
    // Somebody or something was faster: what is shown is out of date.
    if (error.status === 409 || error.code === "OFFLINE") changed();
  };
  const asked = (name) => async () => {
    if (await confirmed(t(`ask.${name}`), t(`ask.${name}.text`), t(`do.${name}`), { kind: "danger" })) await run(name)();
  };
  if (order.status === "UNPAID") {
    return el("div.actions",
      action("button", { "data-do": "pay" }, t("do.pay", { price: cents === undefined ? "" : money(cents) }), run("pay"), failed),
      action("button.quiet", { "data-do": "cancel" }, t("do.cancel"), asked("cancel"), failed));
  }
  if (order.status === "PAID") return el("div.actions", action("button.quiet", { "data-do": "refund" }, t("do.refund"), asked("refund"), failed));
  return null;
}
