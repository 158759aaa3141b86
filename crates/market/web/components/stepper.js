// A number between two bounds, by buttons or by typing.

import { el } from "../dom.js";
import { t } from "../i18n.js";

/** `changed(value)` is called when the number is another one. */
export function stepper({ value, least = 1, most = 999, label, changed }) {
  const input = el("input", { type: "number", inputmode: "numeric", min: least, max: most, value, "aria-label": label });
  let now = value;
  function set(wanted) {
    const next = Math.min(most, Math.max(least, Math.round(Number(wanted)) || least));
    input.value = next;
    less.disabled = next <= least;
    more.disabled = next >= most;
    if (next === now) return;
    now = next;
    changed?.(next);
  }
  const less = el("button.plain", { type: "button", "aria-label": t("less", { label }), onclick: () => set(now - 1) }, "−");
  const more = el("button.plain", { type: "button", "aria-label": t("plus", { label }), onclick: () => set(now + 1) }, "+");
  input.addEventListener("change", () => set(input.value));
  set(value);
  return { node: el("div.stepper", less, input, more), get value() { return now; } };
}
