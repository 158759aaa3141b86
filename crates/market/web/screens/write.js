// Write a note: title, text, up to nine pictures, the shop that it is about, and a look at it before.

import { market, submissionKey } from "../api.js";
import { el } from "../dom.js";
import { t } from "../i18n.js";
import { forget, go, loggedIn } from "../router.js";
import { store } from "../store.js";
import { openDialog } from "../components/dialog.js";
import { field, form } from "../components/field.js";
import { icon } from "../components/icon.js";
import { gallery } from "../components/picture.js";
import { toast } from "../components/toast.js";
import { uploads } from "../components/uploads.js";
import { noteText } from "./note.js";

const DRAFT = "seawall.draft";
const TITLE = 100;
const CONTENT = 4_000;
const FOUND = 6;

/** What was begun and not published, unless somebody else began it. */
function loadDraft() {
  const none = { user: store.get("user").id, title: "", content: "", images: [], key: submissionKey() };
  try {
    const draft = JSON.parse(localStorage.getItem(DRAFT));
    return draft?.user === none.user ? { ...none, ...draft } : none;
  } catch {
    return none;
  }
}

/** Finds a shop by its name. */
function shopPicker(draft, save) {
  const chosen = el("div");
  const found = el("ul.plain-list.found");
  const search = field(t("write.shop"), el("input", { type: "search", autocomplete: "off", placeholder: t("search.hint") }), { hint: t("write.shop.hint") });
  let asked = 0;
  function choose(shop) {
    draft.shop = shop ? { id: shop.id, name: shop.name } : undefined;
    save();
    draw();
  }
  function draw() {
    search.node.hidden = Boolean(draft.shop);
    found.replaceChildren();
    chosen.replaceChildren(...(draft.shop ? [el("p.label", t("write.shop")), el("p.chip", icon("shop"), draft.shop.name,
      el("button.plain", { type: "button", "aria-label": t("write.shop.none"), onclick: () => { choose(null); search.control.focus(); } }, icon("close")))] : []));
  }
  search.control.addEventListener("input", async () => {
    const mine = (asked += 1);
    const name = search.control.value.trim();
    const { data } = name ? await market.shopsByName(name, 1).catch(() => ({ data: [] })) : { data: [] };
    if (mine !== asked) return;
    found.replaceChildren(...data.slice(0, FOUND).map((shop) => el("li",
      el("button.quiet", { type: "button", onclick: () => choose(shop) }, shop.name, el("span.soft", ` · ${shop.area}`)))));
  });
  draw();
  return el("div", search.node, found, chosen);
}

export default async function write({ query, title }) {
  title(t("write"));
  if (!loggedIn()) return null;
  const draft = loadDraft();
  const save = () => localStorage.setItem(DRAFT, JSON.stringify(draft));
  if (query.get("shop")) {
    const shop = await market.shop(query.get("shop")).catch(() => null);
    if (shop) draft.shop = { id: shop.id, name: shop.name };
  }
  const head = field(t("write.title"), el("input", { maxlength: TITLE, required: true, value: draft.title, name: "title" }));
  const text = field(t("write.content"), el("textarea", { rows: 8, maxlength: CONTENT, required: true, value: draft.content, name: "content" }), { hint: t("write.content.hint") });
  head.control.addEventListener("input", () => { draft.title = head.control.value; save(); });
  text.control.addEventListener("input", () => { draft.content = text.control.value; save(); });
  const pictures = uploads(draft.images, (paths) => { draft.images = paths; save(); });
  const preview = el("button.quiet", { type: "button", "data-do": "preview", onclick: () => openDialog(t("write.preview"), () =>
    el("article.note", gallery(draft.images, draft.title), el("h3", draft.title || t("write.untitled")), noteText({ content: draft.content }),
      draft.shop ? el("p.chip", icon("shop"), draft.shop.name) : null)) }, t("write.preview"));
  const node = form({
    className: "card.padded", submit: t("write.publish"),
    fields: [pictures.node, head.node, text.node, shopPicker(draft, save), preview],
    async work() {
      if (pictures.isBusy) throw Object.assign(new Error(), { status: 400, code: "UPLOADING" });
      if (pictures.hasFailed) throw Object.assign(new Error(), { status: 400, code: "UPLOAD_FAILED" });
      const id = await market.postNote({ title: draft.title.trim(), content: draft.content.trim(), images: draft.images, shopId: draft.shop?.id }, draft.key);
      localStorage.removeItem(DRAFT);
      forget();
      toast(t("write.done"), { kind: "good" });
      go(`/note/${id}`, { replace: true });
    },
  });
  return el("div.page.narrow-page", el("h1", t("write")), node);
}
