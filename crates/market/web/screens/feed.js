// What the people one follows have published, with a hint when there is something new.

import { market } from "../api.js";
import { el, every } from "../dom.js";
import { t } from "../i18n.js";
import { loggedIn } from "../router.js";
import { noteCard } from "../components/card.js";
import { scrollList } from "../components/list.js";
import { empty } from "../components/states.js";

const ASK_MS = 10_000;

export const keep = true;

export default function feed({ signal, title }) {
  title(t("nav.feed"));
  if (!loggedIn()) return null;
  let newest = 0;

  /** The next page begins at the last time, after so many of exactly that time. */
  async function load(place) {
    const { list, minTime, offset } = await market.following(place?.minTime, place?.offset);
    for (const note of list) newest = Math.max(newest, Date.parse(note.createTime));
    return { items: list, next: list.length ? { minTime, offset } : undefined };
  }

  const notes = scrollList({ load, draw: (note) => noteCard(note), className: "note-grid", shape: "cards", label: t("nav.feed"), signal,
    nothing: () => empty(t("feed.none"), { sign: "people", action: { href: "#/", text: t("feed.find") } }) });
  const hint = el("button.new-posts", { type: "button", hidden: true, onclick: () => {
    hint.hidden = true;
    window.scrollTo({ top: 0 });
    notes.restart();
  } });
  every(ASK_MS, signal, async () => {
    if (!newest) return;
    const count = await market.newPosts(newest).catch(() => 0);
    if (signal.aborted) return;
    hint.hidden = count === 0;
    hint.textContent = t("feed.new", { count });
  });
  return el("div.page", el("h1", t("nav.feed")), el("div", el("div", { role: "status" }, hint), el("h2.unseen", t("results")), notes.node));
}
