// A list that goes on as one scrolls. No item comes twice, and whoever does not scroll has a button.

import { el } from "../dom.js";
import { t } from "../i18n.js";
import { empty, failure, loading } from "./states.js";

/** How far ahead of the end the next page is asked for. */
const AHEAD = "600px";

/**
 * `load(cursor)` answers `{items, next}`; `next` undefined is the end. `key(item)` tells items apart,
 * `draw(item)` makes the content of an entry.
 */
export function scrollList({ load, key = (item) => item.id, draw, nothing, className = "stack", shape = "lines", label, signal }) {
  const list = el(`ul.plain-list.${className}`, { "aria-label": label });
  const foot = el("div.list-foot");
  const node = el("div.scroll-list", list, foot);
  const seen = new Set();
  let cursor;
  let busy = false;
  let done = false;
  /** How often it began anew: what an earlier round still brings is late. */
  let round = 0;

  function add(items) {
    for (const item of items) {
      if (seen.has(key(item))) continue;
      seen.add(key(item));
      list.append(el("li", draw(item)));
    }
  }

  async function more() {
    if (busy || done || signal.aborted) return;
    const mine = round;
    busy = true;
    list.setAttribute("aria-busy", "true");
    foot.replaceChildren(loading(seen.size ? "line" : shape));
    try {
      const { items, next } = await load(cursor);
      if (signal.aborted || mine !== round) return;
      if (cursor === undefined) {
        // What was there stays until something else is: the page does not jump.
        seen.clear();
        list.replaceChildren();
      }
      add(items);
      cursor = next;
      done = next === undefined;
      if (!done) foot.replaceChildren(el("button.quiet", { type: "button", onclick: more }, t("more")));
      else foot.replaceChildren(seen.size ? el("p.soft.end", t("end")) : (nothing?.() ?? empty(t("nothing"))));
    } catch (error) {
      if (signal.aborted || mine !== round) return;
      foot.replaceChildren(failure(error, more));
      return;
    } finally {
      if (mine === round) {
        busy = false;
        list.removeAttribute("aria-busy");
      }
    }
    // A short page may leave the end in sight, which an observer does not tell again.
    watcher.unobserve(foot);
    if (!done) watcher.observe(foot);
  }

  const watcher = new IntersectionObserver((entries) => {
    if (entries.some((entry) => entry.isIntersecting) && !foot.querySelector(".failed")) more();
  }, { rootMargin: AHEAD });
  signal.addEventListener("abort", () => watcher.disconnect());
  more();

  return {
    node,
    /** Forgets everything and begins anew. */
    restart() {
      round += 1;
      busy = false;
      cursor = undefined;
      done = false;
      return more();
    },
  };
}

/** Pages by number, ten a page; the end is a page that is not full. */
export const byNumber = (ask, rows = 10) => async (current = 1) => {
  const items = await ask(current);
  return { items, next: items.length < rows ? undefined : current + 1 };
};

/** Pages by number where the answer says how many there are. */
export const byTotal = (ask, rows = 10) => async (current = 1) => {
  const { data, total } = await ask(current);
  return { items: data, next: data.length && current * rows < total ? current + 1 : undefined };
};
