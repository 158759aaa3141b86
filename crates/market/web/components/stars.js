// A score out of five, as stars and in words.

import { el } from "../dom.js";
import { score, t } from "../i18n.js";

const FULL = 50;

/** `tenths` is the score times ten. */
export function stars(tenths) {
  const full = Math.round((Math.min(tenths, FULL) / FULL) * 10) / 2;
  const marks = [1, 2, 3, 4, 5].map((nth) => el(`i.star${full >= nth ? ".full" : full >= nth - 0.5 ? ".half" : ""}`));
  return el("span.stars", el("span", { "aria-hidden": "true" }, marks),
    el("b", { "aria-hidden": "true" }, score(tenths)), el("span.unseen", t("stars", { score: score(tenths) })));
}
