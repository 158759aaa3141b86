// Cards: a shop, a note, a sale, something to buy. The title is the link, and the whole card leads there.

import { now } from "../api.js";
import { el } from "../dom.js";
import { ago, count, dateTime, distance, has, money, t } from "../i18n.js";
import { countdown } from "./countdown.js";
import { icon } from "./icon.js";
import { likeButton } from "./like.js";
import { avatar, paths, picture } from "./picture.js";
import { stars } from "./stars.js";

const FEW = 10;

/** Kinds of the demo town have a word in each language; others keep their name. */
export const kindName = (kind) => (has(`kind.${kind.name}`) ? t(`kind.${kind.name}`) : kind.name);

export function shopCard(shop) {
  return el("article.card.shop-card", picture(paths(shop.images)[0]),
    el("div.card-text",
      el("h3", el("a.cover", { href: `#/shop/${shop.id}` }, shop.name)),
      el("p.row", stars(shop.score), el("span.soft", t("visit", { price: money(shop.avgPrice) }))),
      el("p.soft.row.between", el("span", shop.area), shop.distance === undefined ? null : el("span.row.tight", icon("pin"), distance(shop.distance)))));
}

export function noteCard(note) {
  const [first] = paths(note.images);
  return el("article.card.note-card", first ? picture(first) : el("p.text-cover", { "aria-hidden": "true" }, el("span", note.content)),
    el("div.card-text",
      el("h3.two-lines", el("a.cover", { href: `#/note/${note.id}` }, note.title)),
      el("p.row.between.by",
        el("a.row.tight.above", { href: `#/person/${note.userId}` }, avatar(note.userId, note.icon), el("span.one-line", note.name)),
        likeButton(note))),
    el("time.unseen", { datetime: note.createTime }, ago(note.createTime)));
}

/** Where a sale stands: "open", "soon", "over" or "gone". */
export function saleState(sale) {
  if (now() < Date.parse(sale.beginTime)) return "soon";
  if (now() >= Date.parse(sale.endTime)) return "over";
  return sale.stock < 1 ? "gone" : "open";
}

const ORDER = ["open", "soon", "gone", "over"];
export const bySaleState = (one, other) => ORDER.indexOf(saleState(one)) - ORDER.indexOf(saleState(other)) || Date.parse(one.beginTime) - Date.parse(other.beginTime);

/** How many are left, said plainly. */
export function stockBadge(sale) {
  const state = saleState(sale);
  if (state !== "open") return el(`span.badge.${state}`, t(`sale.${state}`));
  return el(`span.badge.open${sale.stock <= FEW ? ".few" : ""}`, t("sale.left", { count: sale.stock }));
}

/** When it begins or ends. */
export function saleTime(sale, signal, over) {
  const state = saleState(sale);
  if (state === "over") return el("span.soft", t("sale.was", { time: dateTime(sale.endTime) }));
  const until = Date.parse(state === "soon" ? sale.beginTime : sale.endTime);
  return el("span.soft.row.tight", icon("clock"), t(state === "soon" ? "sale.begins" : "sale.ends"), countdown(until, signal, over));
}

export const prices = (sale) => el("p.prices", el("strong", money(sale.payValue)), " ",
  el("s", el("span.unseen", t("sale.worth")), money(sale.actualValue)));

export function saleCard(sale, signal, over) {
  return el(`article.card.sale-card.${saleState(sale)}`,
    el("div.card-text",
      el("div.row.between", stockBadge(sale), el("span.cut", t("sale.cut", { percent: Math.round((1 - sale.payValue / Math.max(1, sale.actualValue)) * 100) }))),
      el("h3", el("a.cover", { href: `#/sale/${sale.id}` }, sale.title)),
      el("p.soft.one-line", sale.subTitle), prices(sale), el("p.small", saleTime(sale, signal, over))));
}

export function goodsCard(sku, addButton) {
  return el("article.card.goods-card", picture(sku.image),
    el("div.card-text",
      el("h3.two-lines", el("a.cover", { href: `#/goods/${sku.id}` }, sku.name)),
      el("div.row.between", el("strong.price", money(sku.price)), addButton)));
}

export const figures = (shop) => t("shop.figures", { sold: count(shop.sold), comments: count(shop.comments) });
