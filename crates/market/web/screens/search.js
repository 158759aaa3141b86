// Shops by a part of their name.

import { market } from "../api.js";
import { el } from "../dom.js";
import { t } from "../i18n.js";
import { here, metres } from "../place.js";
import { go } from "../router.js";
import { shopCard } from "../components/card.js";
import { byTotal, scrollList } from "../components/list.js";
import { empty } from "../components/states.js";

export const keep = true;

export default function search({ query, signal, title }) {
  title(t("search"));
  const wanted = query.get("q")?.trim() ?? "";
  const input = el("input", { type: "search", name: "q", value: wanted, placeholder: t("search.hint"), "aria-label": t("search"), maxlength: 60 });
  const form = el("form.search-form", { onsubmit: (event) => {
    event.preventDefault();
    go(`/search?${new URLSearchParams({ q: input.value.trim() })}`, { replace: true });
  } }, input, el("button", { type: "submit" }, t("search")));
  const node = el("div.page", el("h1", wanted ? t("search.for", { wanted }) : t("search")), form);
  if (!wanted) return el("div.page", el("h1", t("search")), form, empty(t("search.begin"), { sign: "search" }));
  const number = el("p.soft", { role: "status" });
  const list = scrollList({
    load: byTotal(async (page) => {
      const found = await market.shopsByName(wanted, page);
      number.textContent = t("search.found", { count: found.total });
      return { ...found, data: found.data.map((shop) => ({ ...shop, distance: metres(here(), shop) })) };
    }),
    draw: shopCard, className: "shop-grid", shape: "cards", signal,
    nothing: () => empty(t("search.none", { wanted }), { sign: "search", action: { href: "#/shops", text: t("nav.shops") } }),
  });
  node.append(number, el("h2.unseen", t("results")), list.node);
  return node;
}
