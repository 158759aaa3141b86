// Short messages at the edge of the page, and what an error says to people.

import { el } from "../dom.js";
import { has, t } from "../i18n.js";
import { icon } from "./icon.js";

const SHOWN_MS = 6_000;
const MOST = 3;

/** What happened and what to do about it. */
export function explain(error) {
  if (error?.code && has(`error.${error.code}`)) return t(`error.${error.code}`, { seconds: error.retryAfter ?? 60 });
  if (error?.status && has(`http.${error.status}`)) return t(`http.${error.status}`);
  return error?.status ? t("error.other", { msg: error.message }) : t("error.bug");
}

export function toast(text, { kind = "", link } = {}) {
  const area = document.getElementById("toasts");
  const gone = () => note.remove();
  const note = el(`div.toast${kind ? `.${kind}` : ""}`,
    el("p", text, link ? [" ", el("a", { href: link.href, onclick: gone }, link.text)] : null),
    el("button.plain", { type: "button", "aria-label": t("close"), onclick: gone }, icon("close")));
  while (area.children.length >= MOST) area.firstElementChild.remove();
  area.append(note);
  setTimeout(gone, SHOWN_MS);
}

export const toastError = (error) => {
  if (error?.name !== "AbortError") toast(explain(error), { kind: "bad" });
};
