// One note: pictures, text, who likes it, and what was said to it.

import { market } from "../api.js";
import { el } from "../dom.js";
import { ago, t } from "../i18n.js";
import { forget, go } from "../router.js";
import { store } from "../store.js";
import { comments } from "../components/comments.js";
import { confirmed } from "../components/dialog.js";
import { action } from "../components/field.js";
import { followButton } from "../components/follow.js";
import { icon } from "../components/icon.js";
import { likeButton } from "../components/like.js";
import { avatar, gallery, paths } from "../components/picture.js";
import { toast, toastError } from "../components/toast.js";

/** The body of a note, as it is read and as the preview shows it. */
export function noteText(note) {
  const parts = note.content.split(/\n{2,}/).map((text) => el("p.words", text));
  return el("div.note-text", parts);
}

function likers(note) {
  const area = el("div.likers");
  const draw = async () => {
    const first = await market.likers(note.id).catch(() => []);
    area.replaceChildren(...(first.length ? [
      el("ul.plain-list.faces", { "aria-label": t("likers") }, first.map((person) => el("li",
        el("a", { href: `#/person/${person.id}`, title: person.nickName }, avatar(person.id, person.icon), el("span.unseen", person.nickName))))),
      el("span.soft.small", t("likers.text", { first: first[0].nickName, others: Math.max(0, note.liked - 1) }))] : [el("span.soft.small", t("likers.none"))]));
  };
  draw();
  return { node: area, draw };
}

export default async function noteScreen({ params, signal, title }) {
  const note = await market.note(params.id);
  title(note.title);
  const shop = note.shopId !== "0" ? await market.shop(note.shopId).catch(() => null) : null;
  const first = likers(note);
  const user = store.get("user");
  const mayDelete = user && (user.id === note.userId || user.role === "admin");
  const remove = mayDelete ? action("button.plain.danger-text", { "data-do": "delete" }, [icon("trash"), t("note.delete")], async () => {
    if (!await confirmed(t("note.delete.ask"), t("note.delete.text"), t("note.delete"), { kind: "danger" })) return;
    await market.deleteNote(note.id);
    forget();
    toast(t("note.deleted"), { kind: "good" });
    go(`/person/${note.userId}`, { replace: true });
  }, toastError) : null;
  return el("div.page.note-page", el("article.card.note",
    gallery(paths(note.images), note.title),
    el("div.padded",
      el("h1", note.title),
      el("div.row.between.author",
        el("a.row.tight", { href: `#/person/${note.userId}` }, avatar(note.userId, note.icon, "middle"),
          el("span", el("b", note.name), el("time.soft.small.block", { datetime: note.createTime }, ago(note.createTime)))),
        followButton({ id: note.userId, nickName: note.name })),
      noteText(note),
      shop ? el("p", el("a.chip", { href: `#/shop/${shop.id}` }, icon("shop"), shop.name)) : null,
      el("div.row.between.note-foot", el("div.row", likeButton(note, () => first.draw()), first.node), remove))),
  comments(note, signal));
}
