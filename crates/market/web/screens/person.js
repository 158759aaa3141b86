// Somebody: what they say of themselves, whom one follows in common, and what they wrote.

import { market } from "../api.js";
import { el } from "../dom.js";
import { count, t } from "../i18n.js";
import { store } from "../store.js";
import { noteCard } from "../components/card.js";
import { followButton } from "../components/follow.js";
import { byTotal, scrollList } from "../components/list.js";
import { avatar } from "../components/picture.js";
import { empty } from "../components/states.js";

export function profileHead(person, tools) {
  const fans = el("dd", count(person.fans));
  const node = el("div.card.padded.profile",
    avatar(person.id, person.icon, "large"),
    el("div.profile-text",
      el("h1", person.nickName),
      el("p.soft", [person.city, t("profile.level", { level: person.level })].filter(Boolean).join(" · ")),
      person.introduce ? el("p", person.introduce) : null,
      el("dl.numbers",
        el("div", el("dt", t("profile.fans")), fans),
        el("div", el("dt", t("profile.follows")), el("dd", count(person.followee))),
        el("div", el("dt", t("profile.credits")), el("dd", count(person.credits))))),
    el("div.profile-tools", tools));
  return { node, addFan(by) { person.fans += by; fans.textContent = count(person.fans); } };
}

function common(person) {
  const area = el("section", { hidden: true }, el("h2", t("profile.common")));
  market.common(person.id).then((people) => {
    area.hidden = !people.length;
    area.append(el("ul.plain-list.people", people.map((one) => el("li",
      el("a", { href: `#/person/${one.id}` }, avatar(one.id, one.icon, "middle"), el("span.one-line", one.nickName))))));
  }, () => {});
  return area;
}

export function notesOf(person, signal, nothing) {
  const list = scrollList({ load: byTotal((page) => market.notesOfUser(person.id, page)), draw: (note) => noteCard(note), className: "note-grid", shape: "cards", label: t("profile.notes"), signal, nothing });
  return el("section", el("h2", t("profile.notes")), list.node);
}

export const keep = true;

export default async function personScreen({ params, signal, title }) {
  const person = await market.user(params.id);
  title(person.nickName);
  const isOther = store.get("user") && store.get("user").id !== person.id;
  const head = profileHead(person, followButton(person, (follows) => head.addFan(follows ? 1 : -1)));
  return el("div.page", head.node, isOther ? common(person) : null,
    notesOf(person, signal, () => empty(t("profile.none", { name: person.nickName }), { sign: "pen" })));
}
