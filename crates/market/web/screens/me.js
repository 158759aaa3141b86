// Oneself: the ways to orders and sign-in, the profile as others see it, and the way out.

import { loadUser, logOut } from "../account.js";
import { market } from "../api.js";
import { el } from "../dom.js";
import { t } from "../i18n.js";
import { go, loggedIn, show } from "../router.js";
import { store } from "../store.js";
import { openDialog } from "../components/dialog.js";
import { field, form } from "../components/field.js";
import { icon } from "../components/icon.js";
import { empty } from "../components/states.js";
import { toast } from "../components/toast.js";
import { notesOf, profileHead } from "./person.js";

const WAYS = [
  ["#/orders/goods", "receipt", "orders.goods"], ["#/orders/voucher", "bolt", "orders.voucher"], ["#/cart", "cart", "cart"],
  ["#/signin", "calendar", "signin"], ["#/write", "pen", "write"],
];

function edit(person) {
  openDialog(t("profile.edit"), (close) => {
    const name = field(t("profile.name"), el("input", { value: person.nickName, maxlength: 32, required: true }));
    const city = field(t("profile.city"), el("input", { value: person.city, maxlength: 64 }));
    const words = field(t("profile.words"), el("textarea", { value: person.introduce, maxlength: 128, rows: 3 }));
    const gender = field(t("profile.gender"), el("select", [0, 1, 2].map((value) => el("option", { value, selected: value === person.gender }, t(`gender.${value}`)))));
    const birthday = field(t("profile.birthday"), el("input", { type: "date", value: person.birthday ?? "" }));
    return form({
      fields: [name, city, words, gender, birthday].map(({ node }) => node), submit: t("save"),
      async work() {
        await market.changeMe({ nickName: name.control.value, city: city.control.value, introduce: words.control.value, gender: Number(gender.control.value), birthday: birthday.control.value });
        close();
        toast(t("profile.saved"), { kind: "good" });
        await loadUser();
        await show();
      },
    });
  });
}

export default async function me({ signal, title }) {
  title(t("nav.me"));
  if (!loggedIn()) return null;
  const person = await market.user(store.get("user").id);
  const tools = [
    el("button.quiet", { type: "button", onclick: () => edit(person) }, t("profile.edit")),
    el("button.plain.link", { type: "button", "data-do": "logout", onclick: async () => { await logOut(); go("/", { replace: true }); } }, t("logout")),
  ];
  return el("div.page", profileHead(person, tools).node,
    el("ul.plain-list.ways", WAYS.map(([href, sign, word]) => el("li", el("a.card", { href }, icon(sign), el("span", t(word)))))),
    notesOf(person, signal, () => empty(t("profile.mine.none"), { sign: "pen", action: { href: "#/write", text: t("write") } })));
}
