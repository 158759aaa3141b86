// Pictures: one, somebody's face, and a strip of up to nine.

import { el } from "../dom.js";
import { t } from "../i18n.js";
import { icon } from "./icon.js";

/** Paths of a text with commas between them. */
export const paths = (images) => (images ?? "").split(",").map((path) => path.trim()).filter(Boolean);

/** A picture that leaves a quiet field when it is not there. */
export function picture(path, alt = "", className = "") {
  const frame = el(`span.picture${className ? `.${className}` : ""}`);
  const absent = () => frame.replaceChildren(icon("picture"));
  if (!path) absent();
  else frame.append(el("img", { src: path, alt, loading: "lazy", decoding: "async", onerror: absent }));
  return frame;
}

/** Whoever has not chosen a picture gets one that the service draws. */
export const avatar = (id, path, size = "") => picture(path || `/pictures/user/${id}.svg`, "", `avatar${size ? `.${size}` : ""}`);

/** Pictures side by side, moved by finger, keys or buttons. */
export function gallery(images, about) {
  if (!images.length) return null;
  const strip = el("ul.plain-list.strip", { tabIndex: images.length > 1 ? 0 : -1, "aria-label": t("pictures.of", { about }) },
    images.map((path, nth) => el("li", picture(path, t("picture.nth", { nth: nth + 1, all: images.length, about })))));
  const node = el("div.gallery", strip);
  if (images.length === 1) return node;
  const place = el("span.gallery-place", { "aria-hidden": "true" }, `1/${images.length}`);
  const turn = (by) => strip.scrollBy({ left: by * strip.clientWidth });
  strip.addEventListener("scroll", () => {
    place.textContent = `${Math.round(strip.scrollLeft / Math.max(1, strip.clientWidth)) + 1}/${images.length}`;
  }, { passive: true });
  node.append(place,
    el("button.round.turn-back", { type: "button", "aria-label": t("picture.before"), onclick: () => turn(-1) }, icon("left")),
    el("button.round.turn-on", { type: "button", "aria-label": t("picture.after"), onclick: () => turn(1) }, icon("right")));
  return node;
}
