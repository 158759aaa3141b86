// What is around every screen: the header, the ways to the main screens, notices and the footer.

import { el } from "../dom.js";
import { t } from "../i18n.js";
import { go } from "../router.js";
import { store } from "../store.js";
import { icon } from "./icon.js";
import { avatar } from "./picture.js";

/** The main ways, with their sign and the first parts of paths that belong to them. */
const WAYS = [
  { href: "#/", word: "nav.home", sign: "home", parts: ["", "note", "sale", "sales", "search"] },
  { href: "#/shops", word: "nav.shops", sign: "shop", parts: ["shops", "shop", "map"] },
  { href: "#/goods", word: "nav.goods", sign: "bag", parts: ["goods"] },
  { href: "#/feed", word: "nav.feed", sign: "people", parts: ["feed", "person"] },
  { href: "#/me", word: "nav.me", sign: "person", parts: ["me", "orders", "order", "signin", "login"] },
];
const THEMES = ["auto", "light", "dark"];

let control = new AbortController();

function ways(className) {
  const links = WAYS.map(({ href, word, sign }) => el("a", { href }, icon(sign), el("span", t(word))));
  const mark = () => {
    const part = store.get("path").split("/")[0];
    WAYS.forEach(({ parts }, at) => {
      if (parts.includes(part)) links[at].setAttribute("aria-current", "page");
      else links[at].removeAttribute("aria-current");
    });
  };
  mark();
  store.on("path", mark, control.signal);
  return el(`nav.${className}`, { "aria-label": t(`nav.${className}`) }, links);
}

function searchForm() {
  const input = el("input", { type: "search", name: "q", placeholder: t("search.hint"), "aria-label": t("search"), maxlength: 60 });
  return el("form.head-search", { role: "search", onsubmit: (event) => {
    event.preventDefault();
    go(`/search?${new URLSearchParams({ q: input.value.trim() })}`);
  } }, icon("search"), input);
}

function cartLink() {
  const number = el("span.count");
  const link = el("a.head-link", { href: "#/cart" }, icon("cart"), number);
  const draw = () => {
    const units = store.get("cartCount");
    number.textContent = units > 99 ? "99+" : String(units);
    number.hidden = units === 0;
    link.setAttribute("aria-label", t("nav.cart", { count: units }));
  };
  draw();
  store.on("cartCount", draw, control.signal);
  return link;
}

function userLink() {
  const area = el("span.head-user");
  const draw = () => {
    const user = store.get("user");
    area.replaceChildren(user
      ? el("a.head-link", { href: "#/me", "aria-label": t("nav.user", { name: user.nickName }) }, avatar(user.id, user.icon))
      : el("a.button.small", { href: "#/login" }, t("login")));
  };
  draw();
  store.on("user", draw, control.signal);
  return area;
}

/** Language and theme, as they are chosen in the footer. */
function settings() {
  const theme = el("select", { "aria-label": t("theme"), onchange: () => store.set("theme", theme.value) },
    THEMES.map((name) => el("option", { value: name, selected: store.get("theme") === name }, t(`theme.${name}`))));
  return el("div.row", languageButton(), theme);
}

export function languageButton() {
  const other = store.get("language") === "en" ? "zh" : "en";
  return el("button.quiet.small.language", { type: "button", lang: other === "zh" ? "zh-CN" : "en", onclick: () => store.set("language", other) },
    other === "zh" ? "中文" : "English");
}

/** Says that the service is away or not well, as long as that is so. */
function notice() {
  const node = el("div.notice", { role: "status" });
  const draw = () => {
    const health = store.get("health");
    node.hidden = health === "well";
    node.className = `notice ${health}`;
    node.replaceChildren(...(health === "well" ? [] : [icon(health === "offline" ? "cloud" : "wave"), el("p", t(`notice.${health}`))]));
  };
  draw();
  store.on("health", draw, control.signal);
  return node;
}

/** Draws all of it into `root`; answers where screens go. */
export function drawShell(root) {
  control.abort();
  control = new AbortController();
  const main = el("main", { id: "main", tabIndex: -1 });
  const skip = el("a.skip", { href: "#main", onclick: (event) => { event.preventDefault(); main.focus(); } }, t("skip"));
  root.replaceChildren(
    skip,
    el("header.head", el("div.head-row",
      el("a.brand", { href: "#/" }, el("span.brand-sign", { "aria-hidden": "true" }), el("span", t("brand.short"))),
      ways("top"), searchForm(),
      el("a.head-link.only-narrow", { href: "#/search", "aria-label": t("search") }, icon("search")),
      languageButton(), cartLink(), userLink())),
    notice(), main,
    el("footer.foot", el("p.soft", t("footer")), el("p", el("a", { href: "/docs" }, t("footer.api"))), settings()),
    ways("bottom"));
  return main;
}
