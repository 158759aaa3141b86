// Time that runs out, second by second. Screen readers are told the end of it, not every second.

import { now } from "../api.js";
import { el } from "../dom.js";
import { span } from "../i18n.js";

const SECOND_MS = 1_000;

/** Counts to `until` (milliseconds) and calls `over` once when it is there. */
export function countdown(until, signal, over) {
  const node = el("span.countdown", { role: "timer", "aria-live": "off" });
  const left = () => Math.max(0, Math.ceil((until - now()) / SECOND_MS));
  const draw = () => { node.textContent = span(left()); };
  draw();
  if (left() === 0) return node;
  const timer = setInterval(() => {
    draw();
    if (left() > 0) return;
    clearInterval(timer);
    over?.();
  }, SECOND_MS);
  signal.addEventListener("abort", () => clearInterval(timer));
  return node;
}
