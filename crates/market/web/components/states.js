// What is there before, instead of and after content: loading, nothing, and what went wrong.

import { el } from "../dom.js";
import { t } from "../i18n.js";
import { icon } from "./icon.js";
import { explain } from "./toast.js";

/** Grey shapes where content will be. */
export function loading(shape = "lines") {
  const parts = shape === "cards" ? 6 : 4;
  return el(`div.skeleton.${shape}`, { role: "status" },
    el("span.unseen", t("loading")),
    Array.from({ length: parts }, () => el("div.bone", { "aria-hidden": "true" })));
}

/** Nothing here, and where to go instead. */
export function empty(text, { sign = "wave", action } = {}) {
  return el("div.state", icon(sign), el("p", text), action ? el("a.button.quiet", { href: action.href }, action.text) : null);
}

/** Which picture and heading an error gets. */
function face(error) {
  if (error?.code === "OFFLINE") return ["cloud", t("state.offline")];
  if (error?.status === 503 || error?.status === 408) return ["wave", t("state.degraded")];
  if (error?.status === 404) return ["compass", t("state.missing")];
  return ["wave", t("state.failed")];
}

/** Something went wrong: what, what to do, and the button for it. */
export function failure(error, retry) {
  const [sign, title] = face(error);
  const node = el("div.state.failed", { role: "alert" }, icon(sign), el("h2", title), el("p", explain(error)));
  if (error?.status === 404) node.append(el("a.button.quiet", { href: "#/" }, t("state.home")));
  else if (retry) node.append(el("button.quiet", { type: "button", onclick: retry }, t("retry")));
  return node;
}
