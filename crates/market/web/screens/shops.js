// Shops of a kind, nearest first, or sorted by what counts for the reader.

import { market } from "../api.js";
import { el } from "../dom.js";
import { t } from "../i18n.js";
import { backToTown, here, locate } from "../place.js";
import { go } from "../router.js";
import { kindName, shopCard } from "../components/card.js";
import { action } from "../components/field.js";
import { icon } from "../components/icon.js";
import { byNumber, scrollList } from "../components/list.js";
import { empty } from "../components/states.js";
import { toast } from "../components/toast.js";

/** The service sorts by distance; for other orders all pages of a kind are read, up to this many. */
const MAX_PAGES = 10;
const ROWS = 10;
const SORTS = {
  distance: null,
  score: (one, other) => other.score - one.score,
  price: (one, other) => one.avgPrice - other.avgPrice,
  sold: (one, other) => other.sold - one.sold,
};

async function sorted(type, compare) {
  const shops = [];
  for (let page = 1; page <= MAX_PAGES; page += 1) {
    const more = await market.shopsOfType(type, page, here());
    shops.push(...more);
    if (more.length < ROWS) break;
  }
  return shops.sort(compare);
}

/** Where distances are counted from, and how to change that. */
export function placeBar(redo) {
  const { own } = here();
  return el("p.place.soft.row.tight", icon("pin"), t(own ? "place.own" : "place.town"),
    own ? el("button.plain.link", { type: "button", onclick: () => { backToTown(); redo(); } }, t("place.back"))
      : action("button.plain.link", {}, t("place.use"), async () => { await locate(); redo(); }, () => toast(t("place.no"), { kind: "bad" })));
}

export const keep = true;

export default async function shops({ query, signal, title }) {
  title(t("nav.shops"));
  const kinds = await market.types();
  const type = query.get("type") ?? kinds[0]?.id;
  const sort = query.get("sort") in SORTS ? query.get("sort") : "distance";
  const link = (values) => `/shops?${new URLSearchParams({ type, sort, ...values })}`;
  const chosen = kinds.find((kind) => kind.id === type);
  const list = () => scrollList({
    load: SORTS[sort] ? async () => ({ items: await sorted(type, SORTS[sort]), next: undefined }) : byNumber((page) => market.shopsOfType(type, page, here())),
    draw: shopCard, className: "shop-grid", shape: "cards", signal,
    nothing: () => empty(t(here().own ? "shops.far" : "shops.none"), { sign: "compass" }),
  });
  const results = el("div", list().node);
  const where = el("div");
  const redo = () => { where.replaceChildren(placeBar(redo)); results.replaceChildren(list().node); };
  where.append(placeBar(redo));
  const select = el("select", { "aria-label": t("sort"), onchange: () => go(link({ sort: select.value }), { replace: true }) },
    Object.keys(SORTS).map((name) => el("option", { value: name, selected: name === sort }, t(`sort.${name}`))));
  return el("div.page",
    el("div.page-head", el("h1", chosen ? kindName(chosen) : t("nav.shops")), el("a.button.quiet", { href: `#/map?type=${type}` }, icon("compass"), t("map"))),
    el("nav.chips", { "aria-label": t("home.kinds") }, kinds.map((kind) =>
      el("a", { href: `#${link({ type: kind.id })}`, "aria-current": kind.id === type ? "true" : undefined }, kindName(kind)))),
    el("div.row.between.tools", where, select), el("h2.unseen", t("results")), results);
}
