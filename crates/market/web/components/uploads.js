// Up to nine pictures: chosen, made smaller where they are large, uploaded, ordered and taken out again.

import { market } from "../api.js";
import { el } from "../dom.js";
import { t } from "../i18n.js";
import { icon } from "./icon.js";
import { explain, toast } from "./toast.js";

const MOST = 9;
const KINDS = ["image/png", "image/jpeg", "image/gif", "image/webp"];
/** Larger files are drawn again, with the longer side at most so many pixels. */
const LARGE_BYTES = 1_500_000;
const LONG_SIDE = 1_600;
const QUALITY = 0.85;

async function smaller(file) {
  if (file.size <= LARGE_BYTES || file.type === "image/gif") return file;
  const whole = await createImageBitmap(file);
  const scale = Math.min(1, LONG_SIDE / Math.max(whole.width, whole.height));
  const canvas = el("canvas", { width: Math.round(whole.width * scale), height: Math.round(whole.height * scale) });
  canvas.getContext("2d").drawImage(whole, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => canvas.toBlob((blob) => done(blob ?? file), "image/jpeg", QUALITY));
}

/** What is seen while it is on its way: the policy allows data, not blobs. */
const readable = (file) => new Promise((done) => {
  const reader = new FileReader();
  reader.onload = () => done(reader.result);
  reader.onerror = () => done("");
  reader.readAsDataURL(file);
});

/** `changed(paths)` is called with the paths of what is uploaded, in order. */
export function uploads(initial, changed) {
  let items = initial.map((path) => ({ path, seen: path, state: "there" }));
  const list = el("ul.plain-list.upload-grid");
  const input = el("input.unseen", { type: "file", accept: KINDS.join(","), multiple: true, onchange: () => choose([...input.files]) });
  const add = el("label.upload-add", { tabIndex: -1 }, icon("picture"), el("span", t("upload.add")), input);
  const status = el("p.hint", { role: "status" });

  function tell() {
    changed(items.filter(({ path }) => path).map(({ path }) => path));
    const busy = items.filter(({ state }) => state === "going").length;
    status.textContent = busy ? t("upload.going", { count: busy }) : t("upload.count", { count: items.length, most: MOST });
  }

  function move(item, by) {
    const at = items.indexOf(item);
    items.splice(at, 1);
    items.splice(at + by, 0, item);
    draw();
  }

  function tile(item, nth) {
    const button = (label, sign, work, off) => el("button.round", { type: "button", "aria-label": label, disabled: off, onclick: work }, icon(sign));
    return el(`li.tile.${item.state}`, el("img", { src: item.seen, alt: t("picture.nth", { nth: nth + 1, all: items.length, about: "" }) }),
      item.state === "failed" ? el("p.tile-error", item.error, " ", el("button.plain.link", { type: "button", onclick: () => send(item) }, t("retry"))) : null,
      el("div.tile-tools",
        button(t("upload.left", { nth: nth + 1 }), "left", () => move(item, -1), nth === 0),
        button(t("upload.right", { nth: nth + 1 }), "right", () => move(item, 1), nth === items.length - 1),
        button(t("upload.remove", { nth: nth + 1 }), "close", () => { items = items.filter((other) => other !== item); draw(); })));
  }

  function draw() {
    list.replaceChildren(...items.map(tile), ...(items.length < MOST ? [el("li", add)] : []));
    tell();
  }

  async function send(item) {
    item.state = "going";
    draw();
    try {
      item.path = await market.upload(await smaller(item.file));
      item.state = "there";
    } catch (error) {
      item.state = "failed";
      item.error = explain(error);
    }
    draw();
  }

  async function choose(files) {
    input.value = "";
    const room = MOST - items.length;
    if (files.length > room) toast(t("error.TOO_MANY_IMAGES"), { kind: "bad" });
    for (const file of files.slice(0, room)) {
      if (!KINDS.includes(file.type)) { toast(t("error.NOT_A_PICTURE"), { kind: "bad" }); continue; }
      const item = { file, seen: await readable(file), state: "going" };
      items.push(item);
      send(item);
    }
  }

  draw();
  return {
    node: el("fieldset.uploads", el("legend", t("upload")), list, status),
    get isBusy() { return items.some(({ state }) => state === "going"); },
    get hasFailed() { return items.some(({ state }) => state === "failed"); },
  };
}
