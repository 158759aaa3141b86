// No network: what is there stays, what is not says so and what to do, and all comes back by itself.

import assert from "node:assert/strict";
import { scenario } from "../kit/stage.mjs";

const CUT = "net::ERR_INTERNET_DISCONNECTED";

await scenario(async ({ visit }) => {
  const visitor = await visit({ size: "phone", path: "/shop/2" });
  const name = await visitor.text("h1");
  visitor.watcher.announce(CUT, /./);
  await visitor.page.setOfflineMode(true);
  await visitor.see(".notice.offline", "No connection to the market.");
  await visitor.see("h1", name);

  // A screen whose code is there, and one whose code was never loaded.
  await visitor.page.evaluate(() => { location.hash = "/shop/3"; });
  await visitor.see(".state.failed h2", "The market does not answer");
  await visitor.see(".state.failed", "Check your connection; then try again.");
  await visitor.see(".state.failed button", "Try again");
  await visitor.page.evaluate(() => { location.hash = "/goods"; });
  await visitor.see(".state.failed h2", "The market does not answer");

  await visitor.page.setOfflineMode(false);
  await visitor.see(".goods-card");
  await visitor.gone(".notice");
  await visitor.go("/shop/3");
  assert.notEqual(await visitor.text("h1"), name);

  // An address that leads nowhere is another thing.
  await visitor.page.evaluate(() => { location.hash = "/nothing/here"; });
  await visitor.see(".state.failed h2", "There is nothing here");
  visitor.watcher.announce(404, /^\/shop\//);
  await visitor.page.evaluate(() => { location.hash = "/shop/999999"; });
  await visitor.see(".state.failed", "There is no such shop.");
});
