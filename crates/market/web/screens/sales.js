// All flash sales: what can be bought first, then what is coming, sold out and over.

import { market } from "../api.js";
import { el, every, redrawn } from "../dom.js";
import { t } from "../i18n.js";
import { bySaleState, saleCard } from "../components/card.js";
import { empty } from "../components/states.js";

const REFRESH_MS = 5_000;

export default async function sales({ signal, title }) {
  title(t("home.sales"));
  const list = el("ul.plain-list.sale-grid");
  const body = el("div", list);
  const fresh = redrawn(signal);
  function draw(all) {
    if (!all.length) body.replaceChildren(empty(t("sales.none"), { sign: "bolt" }));
    const timers = fresh();
    list.replaceChildren(...[...all].sort(bySaleState).map((sale) => el("li", saleCard(sale, timers, again))));
  }
  const again = () => market.sales().then((all) => { if (!list.contains(document.activeElement)) draw(all); }, () => {});
  draw(await market.sales());
  every(REFRESH_MS, signal, again);
  return el("div.page", el("h1", t("home.sales")), el("p.soft", t("sales.text")), el("h2.unseen", t("results")), body);
}
