// Which screen is shown: the part of the address after #. Each screen is a module that is loaded when it is first
// needed; it makes a node from `{params, query, signal, title}`, and `signal` ends with the screen. A screen that
// exports `keep` is put aside instead, and is there again as it was when somebody comes back to it.

import { market } from "./api.js";
import { el, moveFocus, say } from "./dom.js";
import { t } from "./i18n.js";
import { store } from "./store.js";
import { failure, loading } from "./components/states.js";

/** Faster than this no skeleton is shown: it would only flicker. */
const SKELETON_MS = 150;
/** How many places are remembered to come back to, and how many lists as they were. */
const MAX_PLACES = 50;
const MAX_KEPT = 6;

const ROUTES = {
  "": () => import("./screens/home.js"),
  "login": () => import("./screens/login.js"),
  "shops": () => import("./screens/shops.js"),
  "shop/:id": () => import("./screens/shop.js"),
  "map": () => import("./screens/map.js"),
  "search": () => import("./screens/search.js"),
  "sales": () => import("./screens/sales.js"),
  "sale/:id": () => import("./screens/sale.js"),
  "goods": () => import("./screens/goods.js"),
  "goods/:id": () => import("./screens/sku.js"),
  "cart": () => import("./screens/cart.js"),
  "checkout": () => import("./screens/checkout.js"),
  "orders": () => import("./screens/orders.js"),
  "orders/:kind": () => import("./screens/orders.js"),
  "order/:kind/:id": () => import("./screens/order.js"),
  "note/:id": () => import("./screens/note.js"),
  "write": () => import("./screens/write.js"),
  "feed": () => import("./screens/feed.js"),
  "me": () => import("./screens/me.js"),
  "person/:id": () => import("./screens/person.js"),
  "signin": () => import("./screens/signin.js"),
};

let here;
let main;
let isFirst = true;
const scrolled = new Map();
const kept = new Map();

function parse() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  return { path: path.replace(/\/$/, ""), query: new URLSearchParams(query ?? "") };
}

function match(path) {
  const parts = path.split("/");
  for (const [pattern, load] of Object.entries(ROUTES)) {
    const wanted = pattern.split("/");
    if (wanted.length !== parts.length) continue;
    if (!wanted.every((part, at) => part.startsWith(":") || part === parts[at])) continue;
    const named = wanted.map((part, at) => [part, parts[at]]).filter(([part]) => part.startsWith(":"));
    return { load, params: Object.fromEntries(named.map(([part, value]) => [part.slice(1), decodeURIComponent(value)])) };
  }
  return null;
}

/** Goes somewhere; `replace` leaves no trace of where one was. */
export function go(path, { replace = false } = {}) {
  if (replace) location.replace(`#${path}`);
  else location.hash = path;
}

/** True when somebody is logged in; otherwise leads to the login and back. */
export function loggedIn() {
  if (store.get("user")) return true;
  const { path, query } = parse();
  go(`/login?${new URLSearchParams({ to: `/${path}${query.size ? `?${query}` : ""}` })}`, { replace: isGate(path) });
  return false;
}

/** Screens that show nothing without a login: going back must not lead to them again. */
function isGate(path) {
  return ["feed", "cart", "checkout", "orders", "write", "signin", "me", "order"].includes(path.split("/")[0]);
}

/** A module that is gone belongs to an older version of the page: the newest one is asked for, once. */
async function loadScreen(load) {
  try {
    return await load();
  } catch (error) {
    const answers = await market.ready().then(() => true, (refused) => refused.status !== 0);
    if (answers && sessionStorage.getItem("seawall.reloaded") !== location.hash) {
      sessionStorage.setItem("seawall.reloaded", location.hash);
      location.reload();
    }
    throw Object.assign(error, { code: "OFFLINE", status: 0 });
  }
}

/** A name for this entry of the history; one that has a name already was come back to. */
function place() {
  if (history.state?.place) return { name: history.state.place, isBack: true };
  const name = `${Date.now()}-${Math.random()}`;
  history.replaceState({ place: name }, "");
  return { name, isBack: false };
}

function trim(map, most, drop = () => {}) {
  while (map.size > most) {
    const [name, oldest] = map.entries().next().value;
    drop(oldest);
    map.delete(name);
  }
}

function leave() {
  if (!here) return;
  const { name } = here.place;
  scrolled.set(name, window.scrollY);
  trim(scrolled, MAX_PLACES);
  if (here.keep && here.node) {
    here.control.signal.away = true;
    kept.set(name, here);
    trim(kept, MAX_KEPT, ({ control }) => control.abort());
  } else {
    here.control.abort();
  }
}

/** Lists that were put aside are no longer true: somebody logged in, wrote or deleted something. */
export function forget() {
  for (const { control } of kept.values()) control.abort();
  kept.clear();
}

/** Puts a list back as it was; its parts hear of it and bring themselves up to date. */
function comeBack(mine) {
  here = mine;
  mine.control.signal.away = false;
  document.title = mine.title;
  store.set("path", parse().path);
  main.replaceChildren(mine.node);
  for (const part of mine.node.querySelectorAll("[data-again]")) part.dispatchEvent(new Event("again"));
  window.scrollTo({ top: scrolled.get(mine.place.name) ?? 0, behavior: "instant" });
  market.countView();
  say(document.title);
  focusHeading();
}

/** Shows what the address says. */
export async function show({ keepFocus = false, anew = true } = {}) {
  leave();
  const at = place();
  const before = kept.get(at.name);
  kept.delete(at.name);
  if (before && !anew) {
    comeBack(before);
    return;
  }
  before?.control.abort();
  const control = new AbortController();
  const mine = { control, place: at };
  here = mine;
  const { signal } = control;
  const { path, query } = parse();
  const found = match(path);
  const title = (text) => { document.title = text ? `${text} · ${t("brand")}` : t("brand"); };
  title("");
  store.set("path", path);
  const timer = setTimeout(() => main.replaceChildren(loading()), SKELETON_MS);
  signal.addEventListener("abort", () => clearTimeout(timer));
  let node;
  try {
    if (!found) throw Object.assign(new Error("no such screen"), { status: 404, code: "NO_SUCH_PATH" });
    const screen = await loadScreen(found.load);
    if (signal.aborted) return;
    mine.keep = screen.keep;
    node = await screen.default({ params: found.params, query, signal, title });
  } catch (error) {
    if (signal.aborted) return;
    if (error?.status === 401) { loggedIn(); return; }
    if (!error?.code) console.error(error);
    mine.keep = false;
    node = el("div.page", el("h1.unseen", t("state.failed")), failure(error, () => show()));
  }
  clearTimeout(timer);
  if (signal.aborted || !node) return;
  Object.assign(mine, { node, title: document.title });
  main.replaceChildren(node);
  window.scrollTo({ top: at.isBack ? (scrolled.get(at.name) ?? 0) : 0, behavior: "instant" });
  // The first one was counted by the service, with the document.
  if (!isFirst) {
    market.countView();
    say(document.title);
    if (!keepFocus) focusHeading();
  }
  isFirst = false;
}

function focusHeading() {
  moveFocus(main.querySelector("h1") ?? main);
}

/** Begins; `target` is where screens are shown. */
export function start(target) {
  main = target;
  history.scrollRestoration = "manual";
  store.on("user", forget);
  window.addEventListener("hashchange", () => show({ anew: false }));
  return show();
}

/** Screens go somewhere else from now on: the shell was drawn in another language. */
export function moveTo(target) {
  main = target;
  forget();
}
