// Home: kinds of shops, flash sales, hot notes, and a feed that scrolls in one version of its list.

import { market } from "../api.js";
import { el, every, redrawn } from "../dom.js";
import { t } from "../i18n.js";
import { bySaleState, kindName, noteCard, saleCard, saleState } from "../components/card.js";
import { icon } from "../components/icon.js";
import { scrollList } from "../components/list.js";
import { picture } from "../components/picture.js";
import { empty, failure, loading } from "../components/states.js";

const REFRESH_MS = 5_000;
const SALES = 6;
const HOT = 6;

/** A part of the screen that is loaded, and fails, by itself. `work` answers null when nothing has changed. */
function part(title, more, work, shape = "line") {
  const body = el("div", loading(shape));
  let isShown = false;
  function draw(node) {
    if (!node) return;
    const left = body.firstElementChild?.scrollLeft ?? 0;
    body.replaceChildren(node);
    node.scrollLeft = left;
    isShown = true;
  }
  // What was there before is better than an error.
  const run = () => work().then(draw, (error) => { if (!isShown) body.replaceChildren(failure(error, run)); });
  run();
  return { node: el("section", el("div.section-head", el("h2", title), more ? el("a", { href: more }, t("all")) : null), body), run };
}

async function kinds() {
  const list = await market.types();
  return el("ul.plain-list.kinds", list.map((kind) => el("li",
    el("a", { href: `#/shops?type=${kind.id}` }, picture(kind.icon), el("span", kindName(kind))))));
}

/** One after the other for each version: the list stays as it is while somebody scrolls. */
function feedPages() {
  return async ({ version, page } = { version: undefined, page: 1 }) => {
    const { feedVersion, list, hasMore, startedOver } = await market.homeFeed(version, page);
    const at = startedOver ? 1 : page;
    return { items: list, next: hasMore ? { version: feedVersion, page: at + 1 } : undefined };
  };
}

export const keep = true;

export default function home({ signal }) {
  const fresh = redrawn(signal);
  let drawn = "";
  const sales = part(t("home.sales"), "#/sales", async () => {
    const list = (await market.sales()).filter((sale) => saleState(sale) !== "over").sort(bySaleState).slice(0, SALES);
    const now = JSON.stringify(list.map((sale) => [sale.id, sale.stock, saleState(sale)]));
    if (now === drawn) return null;
    drawn = now;
    const timers = fresh();
    if (!list.length) return empty(t("sales.none"), { sign: "bolt" });
    return el("ul.plain-list.side-scroll", list.map((sale) => el("li", saleCard(sale, timers, () => sales.run()))));
  });
  // Focus stays where it is: nothing is drawn anew while somebody is in it.
  every(REFRESH_MS, signal, () => { if (!sales.node.contains(document.activeElement)) sales.run(); });
  const hot = part(t("home.hot"), null, async () => {
    const list = (await market.hotNotes(1)).slice(0, HOT);
    if (!list.length) return empty(t("notes.none"), { sign: "pen" });
    return el("ol.plain-list.hot", list.map((note, nth) => el("li",
      el("span.rank", { "aria-hidden": "true" }, String(nth + 1)),
      el("a.one-line", { href: `#/note/${note.id}` }, note.title),
      el("span.soft.row.tight", icon("heart"), el("span.unseen", t("likes.word")), String(note.liked)))));
  });
  const feed = scrollList({ load: feedPages(), draw: (note) => noteCard(note), className: "note-grid", shape: "cards",
    label: t("home.feed"), signal, nothing: () => empty(t("notes.none"), { sign: "pen", action: { href: "#/write", text: t("write") } }) });
  return el("div.page.home",
    el("div.hero", el("div", el("h1", t("home.title")), el("p", t("home.text"))),
      el("div.actions", el("a.button", { href: "#/map" }, icon("compass"), t("home.near")), el("a.button.quiet", { href: "#/write" }, icon("pen"), t("write")))),
    part(t("home.kinds"), "#/shops", kinds).node, sales.node, hot.node,
    el("section", el("div.section-head", el("h2", t("home.feed"))), feed.node));
}
