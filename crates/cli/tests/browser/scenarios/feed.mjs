// Follow three people, scroll what they wrote to its end without meeting anything twice, and hear of new posts.

import assert from "node:assert/strict";
import { answer, call, enter } from "../kit/api.mjs";
import { repeated } from "../kit/checks.mjs";
import { note, scenario } from "../kit/stage.mjs";

/** Bo and Chen wrote a dozen notes in one millisecond, more than a page holds; Hugo's are pulled, not pushed. */
const PEOPLE = { 2: "Bo", 3: "Chen", 8: "Hugo" };
const MOST_TURNS = 200;

/** Turns the wheel until the list has ended; the notes in the order in which they stand. */
async function scrolledThrough(visitor) {
  for (let turn = 0; turn < MOST_TURNS && !await visitor.page.$("main .end"); turn += 1) {
    const before = await visitor.count(".note-card");
    await visitor.page.mouse.wheel({ deltaY: 4_000 });
    await visitor.until("more notes came", (before) => document.querySelectorAll(".note-card").length > before
      || document.querySelector("main .end") || scrollY + innerHeight < document.body.scrollHeight - 50, before);
  }
  await visitor.see("main .end", "That is all.");
  return visitor.page.$$eval("main .note-card .cover", (links) => links.map((link) => link.getAttribute("href")));
}

await scenario(async ({ visit }) => {
  const reader = await visit();
  await reader.logIn("13700000001");
  await reader.go("/feed");
  await reader.see("main .state", "Follow people to see here what they publish.");
  let wrote = 0;
  for (const [id, name] of Object.entries(PEOPLE)) {
    await reader.go(`/person/${id}`);
    await reader.see("h1", name);
    const fans = Number((await reader.text(".numbers dd")).replace(/\D/g, ""));
    await reader.press(".profile-tools button");
    await reader.see(".profile-tools button[aria-pressed=true]", "Following");
    assert.equal(Number((await reader.text(".numbers dd")).replace(/\D/g, "")), fans + 1);
    wrote += (await answer("GET", `/blog/of/user?id=${id}`)).total;
  }

  await reader.go("/feed");
  await reader.see(".note-card");
  // While one scrolls somebody publishes: the list does not move, and a hint comes.
  const title = "Fresh from the boat";
  await call("POST", "/blog", { token: await enter("10000000002"), json: { title, content: "Just now." } });
  const feed = await scrolledThrough(reader);
  assert.deepEqual(repeated(feed), []);
  assert.equal(feed.length, wrote, "everything they wrote");
  await reader.see(".new-posts", "1 new post");
  await reader.press(".new-posts");
  await reader.see("main li:first-child .note-card h3", title);
  await reader.gone(".new-posts");

  await reader.go("/");
  const home = await scrolledThrough(reader);
  assert.deepEqual(repeated(home), []);
  note(`${feed.length} notes in the following feed, ${home.length} in that of the home screen, none twice`);

  // Whom both follow, and the way back.
  await reader.go("/person/1");
  await reader.see(".people", "Bo");
  await reader.go("/person/2");
  await reader.press(".profile-tools button");
  await reader.see(".profile-tools button[aria-pressed=false]", "Follow");
});
