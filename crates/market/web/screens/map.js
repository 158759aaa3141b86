// What is near, as a compass: oneself in the middle, north above, rings for the distance.

import { market } from "../api.js";
import { el, svg } from "../dom.js";
import { distance, money, t } from "../i18n.js";
import { here, offset } from "../place.js";
import { kindName, shopCard } from "../components/card.js";
import { empty } from "../components/states.js";
import { stars } from "../components/stars.js";
import { placeBar } from "./shops.js";

const RINGS = [1_000, 2_500, 5_000];
const REACH = 5_000;
/** Half the side of the drawing. */
const HALF = 200;
const EDGE = 14;
/** Shops at one corner would hide each other: dots are at least this far apart. */
const APART = 15;
const TRIES = 24;
/** Shops in the list beside it. */
const LISTED = 12;

const scale = (metres) => (metres / REACH) * (HALF - EDGE);

/** Moves a dot around its place until it is free of the others. */
function freePlace(taken, x, y) {
  for (let nth = 0; nth < TRIES; nth += 1) {
    const far = (nth / 6) * APART * 0.6;
    const at = { x: x + far * Math.cos(nth * 2.4), y: y + far * Math.sin(nth * 2.4) };
    if (taken.every((other) => Math.hypot(other.x - at.x, other.y - at.y) >= APART)) {
      taken.push(at);
      return at;
    }
  }
  taken.push({ x, y });
  return { x, y };
}

function dot(shop, centre, taken, kinds, choose) {
  const { east, north } = offset(centre, shop);
  const { x, y } = freePlace(taken, scale(east), -scale(north));
  const colour = Math.max(0, kinds.findIndex(({ id }) => id === shop.typeId)) % 10;
  const link = svg(`a.dot.kind-${colour}`, { href: `#/shop/${shop.id}`, "aria-label": `${shop.name}, ${distance(shop.distance)}`, transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})` },
    svg("circle.touch", { r: 11 }), svg("circle", { r: 6 }), svg("title", shop.name));
  // A finger cannot hover: its touch shows what it is, and the card leads on.
  link.addEventListener("click", (event) => {
    if (event.pointerType !== "touch") return;
    event.preventDefault();
    choose(shop, link);
  });
  link.addEventListener("focus", () => choose(shop, link));
  link.addEventListener("mouseenter", () => choose(shop, link));
  return link;
}

function compass(shops, kinds, choose) {
  const taken = [{ x: 0, y: 0 }];
  const centre = here();
  return svg("svg.compass", { viewBox: `${-HALF} ${-HALF} ${2 * HALF} ${2 * HALF}`, role: "group", "aria-label": t("map.label") },
    RINGS.map((metres) => svg("circle.ring", { r: scale(metres).toFixed(1) })),
    svg("path.cross", { d: `M0 ${-HALF + EDGE}V${HALF - EDGE}M${-HALF + EDGE} 0H${HALF - EDGE}` }),
    svg("text.north", { x: 0, y: -HALF + 12, "text-anchor": "middle" }, t("map.north")),
    shops.map((shop) => dot(shop, centre, taken, kinds, choose)),
    // Above the dots, or they would hide them.
    RINGS.map((metres) => svg("text.ring-word", { x: 0, y: (scale(metres) - 5).toFixed(1), "text-anchor": "middle" }, distance(metres))),
    svg("g.self", svg("circle", { r: 9 }), svg("circle", { r: 4 })));
}

async function near(kinds, type) {
  const wanted = type ? kinds.filter(({ id }) => id === type) : kinds;
  const pages = type ? [1, 2] : [1];
  const found = await Promise.all(wanted.flatMap(({ id }) => pages.map((page) => market.shopsOfType(id, page, here()))));
  return found.flat().filter((shop) => shop.distance <= REACH).sort((one, other) => one.distance - other.distance);
}

export default async function map({ query, title }) {
  title(t("map"));
  const kinds = await market.types();
  const type = query.get("type") ?? "";
  const area = el("div.map-area");
  const chosen = el("div.map-chosen", { "aria-live": "polite" });
  let marked;

  function choose(shop, link) {
    marked?.classList.remove("chosen");
    marked = link;
    link.classList.add("chosen");
    chosen.replaceChildren(el("article.card.padded",
      el("h2", el("a", { href: `#/shop/${shop.id}` }, shop.name)),
      el("p.row", stars(shop.score), el("span.soft", distance(shop.distance))),
      el("p.soft", `${shop.area}, ${shop.address} · ${t("visit", { price: money(shop.avgPrice) })}`)));
  }

  async function draw() {
    const shops = await near(kinds, type);
    if (!shops.length) {
      area.replaceChildren(placeBar(draw), empty(t("shops.far"), { sign: "compass" }));
      return;
    }
    chosen.replaceChildren(el("p.soft.hint", t("map.hint", { count: shops.length })));
    area.replaceChildren(placeBar(draw), el("div.map-grid",
      el("div.map-picture", compass(shops, kinds, choose), chosen),
      el("div", el("h2.unseen", t("map.list")), el("ul.plain-list.map-list", shops.slice(0, LISTED).map((shop) => el("li", shopCard(shop)))))));
  }

  await draw();
  return el("div.page", el("h1", t("map")),
    el("nav.chips", { "aria-label": t("home.kinds") },
      el("a", { href: "#/map", "aria-current": type ? undefined : "true" }, t("all")),
      kinds.map((kind, nth) => el("a", { href: `#/map?type=${kind.id}`, "aria-current": kind.id === type ? "true" : undefined }, el(`i.key.kind-${nth % 10}`), kindName(kind)))),
    area);
}
