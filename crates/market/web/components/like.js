// The heart of a note: shows at once, and goes back when the service says no.

import { market } from "../api.js";
import { el } from "../dom.js";
import { count, t } from "../i18n.js";
import { loggedIn } from "../router.js";
import { busy } from "./field.js";
import { icon } from "./icon.js";
import { toastError } from "./toast.js";

/** What the service said last, for the same note in a list that was put aside. */
const told = new Map();

/** `changed(state)` is called once the service has said what counts. */
export function likeButton(note, changed) {
  const number = el("span");
  const button = el("button.like.above", { type: "button", "data-again": "" }, icon("heart"), number);
  const draw = (isLiked, likes) => {
    button.setAttribute("aria-pressed", String(isLiked));
    button.setAttribute("aria-label", t("like", { count: likes }));
    number.textContent = count(likes);
  };
  draw(note.isLike, note.liked);
  button.addEventListener("again", () => {
    Object.assign(note, told.get(note.id));
    draw(note.isLike, note.liked);
  });
  button.addEventListener("click", () => {
    if (!loggedIn()) return;
    busy(button, async () => {
      draw(!note.isLike, note.liked + (note.isLike ? -1 : 1));
      const { liked, count: likes } = await market.like(note.id);
      told.set(note.id, { isLike: liked, liked: likes });
      Object.assign(note, told.get(note.id));
      draw(liked, likes);
      changed?.(note);
    }, (error) => {
      draw(note.isLike, note.liked);
      toastError(error);
    });
  });
  return button;
}
