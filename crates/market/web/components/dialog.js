// Questions that need an answer before anything else; the browser's own dialog keeps the focus in it.

import { el, freshId } from "../dom.js";
import { t } from "../i18n.js";
import { icon } from "./icon.js";

/** Opens a dialog with any content; `close` in its hands ends it. */
export function openDialog(title, makeBody) {
  const id = freshId();
  const node = el("dialog", { "aria-labelledby": id });
  const close = () => node.close();
  node.append(
    el("div.dialog-head", el("h2", { id }, title),
      el("button.plain", { type: "button", "aria-label": t("close"), onclick: close }, icon("close"))),
    el("div.dialog-body", makeBody(close)));
  node.addEventListener("close", () => node.remove());
  // A click beside it closes it.
  node.addEventListener("click", (event) => { if (event.target === node) close(); });
  document.body.append(node);
  node.showModal();
  return node;
}

/** Asks; true for yes. */
export function confirmed(title, text, yes, { kind = "" } = {}) {
  return new Promise((answer) => {
    let said = false;
    const node = openDialog(title, (close) => [
      el("p", text),
      el("div.actions",
        el("button.quiet", { type: "button", onclick: close }, t("back")),
        el(`button${kind ? `.${kind}` : ""}`, { type: "button", onclick: () => { said = true; close(); } }, yes)),
    ]);
    node.addEventListener("close", () => answer(said));
  });
}
