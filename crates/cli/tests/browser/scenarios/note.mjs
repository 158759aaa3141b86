// A note with two pictures: written, looked at before, published, liked, commented on, answered and deleted.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { call, enter } from "../kit/api.mjs";
import { scenario } from "../kit/stage.mjs";

/** Named people who like it before its author does; the page shows the first five. */
const LIKERS = ["10000000002", "10000000003", "10000000004", "10000000006", "10000000007"];

/** A picture that the browser draws itself. */
const drawn = (page, colour) => page.evaluate((colour) => {
  const canvas = Object.assign(document.createElement("canvas"), { width: 320, height: 240 });
  const pen = canvas.getContext("2d");
  pen.fillStyle = colour;
  pen.fillRect(0, 0, 320, 240);
  pen.fillStyle = "#f2b84b";
  pen.fillRect(0, 150, 320, 30);
  return canvas.toDataURL("image/png").split(",")[1];
}, colour);

await scenario(async ({ visit }) => {
  const ada = await visit({ size: "phone" });
  await ada.logIn("10000000001");
  await ada.go("/write");
  const folder = mkdtempSync(path.join(os.tmpdir(), "seawall-"));
  try {
    const files = ["#0b4f66", "#14683f"].map((colour, nth) => [colour, path.join(folder, `${nth}.png`)]);
    for (const [colour, file] of files) writeFileSync(file, await drawn(ada.page, colour), "base64");
    const input = await ada.page.$("input[type=file]");
    await input.uploadFile(...files.map(([, file]) => file));
    await ada.until("both pictures are there", () => document.querySelectorAll(".tile.there").length === 2);
  } finally {
    rmSync(folder, { recursive: true });
  }
  await ada.fill("input[name=title]", "A walk along the wall");
  await ada.fill("textarea[name=content]", "The tide was out.\n\nThen it was not.");
  await ada.fill("form.card input[type=search]", "Kettle");
  await ada.press(".found button");
  await ada.see(".chip", "Kettle");

  await ada.press("[data-do=preview]");
  await ada.see("dialog[open] h3", "A walk along the wall");
  assert.equal(await ada.count("dialog .gallery img"), 2);
  assert.equal(await ada.count("dialog .note-text p"), 2);
  await ada.press("dialog .dialog-head button");
  await ada.gone("dialog");

  // What was written is still there after the page was closed.
  await ada.reload();
  assert.equal(await ada.page.$eval("input[name=title]", (field) => field.value), "A walk along the wall");
  assert.equal(await ada.count(".tile.there"), 2);
  await ada.press("form.card button[type=submit]");
  await ada.see("article.note h1", "A walk along the wall");
  const id = (await ada.path()).split("/").at(-1);
  const loaded = await ada.page.$$eval("article.note .gallery img", (images) => images.map((image) => image.complete && image.naturalWidth));
  assert.deepEqual(loaded, [320, 320]);
  await ada.see("article.note .chip", "Kettle");

  await ada.see(".likers", "Nobody yet");
  await ada.press(".note-foot .like");
  await ada.see(".note-foot .like[aria-pressed=true]", "1");
  await ada.see(".likers", "Ada");
  for (const phone of LIKERS) await call("PUT", `/blog/like/${id}`, { token: await enter(phone) });
  await ada.reload();
  await ada.see(".note-foot .like", "6");
  assert.equal(await ada.count(".faces li"), 5, "the first five");
  await ada.see(".likers", "Ada and 5 others");

  await ada.fill(".comments > form textarea", "Written in the rain.");
  await ada.press(".comments > form button");
  await ada.see(".comment", "Written in the rain.");
  const bo = await visit({ token: await enter("10000000002"), path: `/note/${id}` });
  await bo.press(".comment button.link");
  await bo.fill(".comment .comment-form textarea", "It shows.");
  await bo.press(".comment .comment-form button");
  await bo.see(".replies .comment", "It shows.");
  assert.equal(await bo.count("[data-do=delete]"), 0, "only one's own can be deleted");

  await ada.reload();
  await ada.see(".replies .comment", "It shows.");
  await ada.press("[data-do=delete]");
  await ada.confirm();
  await ada.see(".toast", "The note is gone.");
  await ada.see("h1", "Ada");
  await ada.settled();
  assert.equal(await ada.count(`a[href="#/note/${id}"]`), 0);
  bo.watcher.announce(404, /^\/blog\//);
  await bo.reload();
  await bo.see(".state.failed", "This note is gone.");
});
