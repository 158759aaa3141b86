// How far an order is, as a row of steps, and in words for those who do not see it.

import { el } from "../dom.js";
import { t } from "../i18n.js";

const WAYS = {
  QUEUED: ["QUEUED", "UNPAID", "PAID"],
  UNPAID: ["QUEUED", "UNPAID", "PAID"],
  PAID: ["QUEUED", "UNPAID", "PAID"],
  USED: ["UNPAID", "PAID", "USED"],
  CANCELLED: ["QUEUED", "CANCELLED"],
  REFUNDING: ["PAID", "REFUNDING", "REFUNDED"],
  REFUNDED: ["PAID", "REFUNDING", "REFUNDED"],
  FAILED: ["QUEUED", "FAILED"],
};
/** Those whose last step is no good end. */
const BAD = new Set(["CANCELLED", "FAILED"]);

/** Goods are not queued: their order stands at once. */
export function steps(status, kind = "voucher") {
  const way = (WAYS[status] ?? [status]).map((step) => (step === "QUEUED" && BAD.has(status) && kind === "goods" ? "UNPAID" : step))
    .filter((step) => kind === "voucher" || step !== "QUEUED");
  const at = way.indexOf(status);
  return el("ol.steps.plain-list", { "aria-label": t("order.steps") }, way.map((step, nth) => {
    const kind = nth < at ? ".past" : nth === at ? (BAD.has(status) ? ".now.bad" : ".now") : "";
    return el(`li${kind}`, { "aria-current": nth === at ? "step" : undefined }, el("span", t(`status.${step}`)));
  }));
}

export const statusBadge = (status) => el(`span.badge.order-${status.toLowerCase()}`, t(`status.${status}`));
