// Follow somebody, or no longer.

import { market } from "../api.js";
import { el } from "../dom.js";
import { t } from "../i18n.js";
import { forget, loggedIn } from "../router.js";
import { store } from "../store.js";
import { busy } from "./field.js";
import { toastError } from "./toast.js";

/** Nothing for oneself. */
export function followButton(person, changed) {
  const user = store.get("user");
  if (user?.id === person.id) return null;
  const button = el("button.above", { type: "button" });
  let follows = false;
  const draw = () => {
    button.className = follows ? "quiet above" : "above";
    button.setAttribute("aria-pressed", String(follows));
    button.textContent = t(follows ? "follow.does" : "follow.do");
    button.setAttribute("aria-label", t("follow.label", { name: person.nickName }));
  };
  draw();
  if (user) market.isFollowing(person.id).then((does) => { follows = does; draw(); }, () => {});
  button.addEventListener("click", () => {
    if (!loggedIn()) return;
    busy(button, async () => {
      await market.follow(person.id, !follows);
      forget();
      follows = !follows;
      draw();
      changed?.(follows);
    }, toastError);
  });
  return button;
}
