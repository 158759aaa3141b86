// One shop: pictures, hours, vouchers, and what people wrote about it.

import { market } from "../api.js";
import { el } from "../dom.js";
import { distance, money, t } from "../i18n.js";
import { here, metres } from "../place.js";
import { figures, kindName, noteCard, prices, saleCard } from "../components/card.js";
import { icon } from "../components/icon.js";
import { byTotal, scrollList } from "../components/list.js";
import { gallery, paths } from "../components/picture.js";
import { empty, failure, loading } from "../components/states.js";
import { stars } from "../components/stars.js";

function voucherCard(voucher, signal) {
  if (voucher.type === 1) return saleCard(voucher, signal);
  return el("article.card.voucher-card", el("div.card-text",
    el("h3", voucher.title), el("p.soft", voucher.subTitle), prices(voucher),
    el("details", el("summary", t("voucher.rules")), el("p.soft", voucher.rules)),
    el("p.small.soft", t("voucher.at"))));
}

export const keep = true;

export default async function shopScreen({ params, signal, title }) {
  const [shop, kinds] = await Promise.all([market.shop(params.id), market.types().catch(() => [])]);
  title(shop.name);
  const kind = kinds.find(({ id }) => id === shop.typeId);
  const vouchers = el("div", loading("line"));
  const load = () => market.vouchersOf(shop.id).then((list) => vouchers.replaceChildren(list.length
    ? el("ul.plain-list.voucher-grid", list.map((voucher) => el("li", voucherCard(voucher, signal))))
    : empty(t("vouchers.none"), { sign: "receipt" })), (error) => vouchers.replaceChildren(failure(error, load)));
  load();
  const notes = scrollList({ load: byTotal((page) => market.notesOfShop(shop.id, page)), draw: (note) => noteCard(note),
    className: "note-grid", shape: "cards", label: t("shop.notes"), signal,
    nothing: () => empty(t("shop.notes.none"), { sign: "pen", action: { href: `#/write?shop=${shop.id}`, text: t("shop.write") } }) });
  return el("div.page.detail",
    el("div.detail-head",
      gallery(paths(shop.images), shop.name),
      el("div.card.padded",
        kind ? el("p.eyebrow", el("a", { href: `#/shops?type=${kind.id}` }, kindName(kind))) : null,
        el("h1", shop.name),
        el("p.row", stars(shop.score), el("span.soft", figures(shop))),
        el("dl.facts",
          el("div", el("dt", icon("pin"), t("shop.where")), el("dd", `${shop.area}, ${shop.address}`, el("span.soft", ` · ${distance(metres(here(), shop))}`))),
          el("div", el("dt", icon("clock"), t("shop.hours")), el("dd", shop.openHours || "–")),
          el("div", el("dt", icon("receipt"), t("shop.price")), el("dd", t("visit", { price: money(shop.avgPrice) })))),
        el("div.actions", el("a.button.quiet", { href: `#/write?shop=${shop.id}` }, icon("pen"), t("shop.write"))))),
    el("section", el("h2", t("shop.vouchers")), vouchers),
    el("section", el("h2", t("shop.notes")), notes.node));
}
