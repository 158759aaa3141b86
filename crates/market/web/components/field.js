// Form fields with label, hint and error, and forms that say what they do.

import { el, freshId } from "../dom.js";
import { explain } from "./toast.js";

/** A labelled control. `fail(text)` shows an error beside it, `fail("")` takes it away. */
export function field(label, control, { hint } = {}) {
  const id = freshId();
  control.id = id;
  const wrong = el("p.field-error", { id: `${id}e` });
  const described = [hint ? `${id}h` : "", `${id}e`].filter(Boolean).join(" ");
  control.setAttribute("aria-describedby", described);
  const node = el("div.field", el("label", { htmlFor: id }, label), control,
    hint ? el("p.hint", { id: `${id}h` }, hint) : null, wrong);
  const fail = (text) => {
    wrong.textContent = text;
    if (text) control.setAttribute("aria-invalid", "true");
    else control.removeAttribute("aria-invalid");
  };
  control.addEventListener("input", () => fail(""));
  return { node, control, fail };
}

/** A button that is busy while its work runs; what goes wrong is handed to `failed`. */
export function action(spec, props, label, work, failed) {
  const button = el(spec, { type: "button", ...props }, label);
  button.addEventListener("click", () => busy(button, work, failed));
  return button;
}

export async function busy(button, work, failed) {
  if (button.getAttribute("aria-busy")) return;
  button.setAttribute("aria-busy", "true");
  try {
    await work();
  } catch (error) {
    if (error?.name !== "AbortError") failed?.(error);
  } finally {
    button.removeAttribute("aria-busy");
  }
}

/** A form whose submit runs `work`; errors stand under it, where one looks. */
export function form({ className = "", fields, submit, work }) {
  const note = el("p.form-note", { role: "alert" });
  const button = el("button", { type: "submit" }, submit);
  const node = el(`form${className ? `.${className}` : ""}`, fields, el("div.actions", button), note);
  node.addEventListener("submit", (event) => {
    event.preventDefault();
    note.textContent = "";
    busy(button, work, (error) => { note.textContent = explain(error); });
  });
  return node;
}
