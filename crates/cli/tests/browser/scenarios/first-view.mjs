// What the first view costs, what the second one no longer does, and the policy under which both run.

import assert from "node:assert/strict";
import { call } from "../kit/api.mjs";
import { PAGE, note, scenario } from "../kit/stage.mjs";

const MOST_BYTES = 150_000;

/** Counts what comes over the wire, by what it is. */
async function meter(page) {
  const client = await page.createCDPSession();
  await client.send("Network.enable");
  const kinds = new Map();
  const meter = { files: 0, bytes: 0, pictures: 0, kept: 0 };
  client.on("Network.responseReceived", ({ requestId, response }) => {
    kinds.set(requestId, response.mimeType);
    if (response.fromDiskCache) meter.kept += 1;
  });
  client.on("Network.requestServedFromCache", () => { meter.kept += 1; });
  client.on("Network.loadingFinished", ({ requestId, encodedDataLength }) => {
    if (kinds.get(requestId)?.startsWith("image/")) { meter.pictures += encodedDataLength; return; }
    meter.files += 1;
    meter.bytes += encodedDataLength;
  });
  return meter;
}

await scenario(async ({ visit }) => {
  let first;
  const visitor = await visit({ prepare: async (page) => { first = await meter(page); } });
  await visitor.see(".note-card");
  assert.ok(first.bytes > 50_000 && first.bytes < MOST_BYTES, `${first.bytes} bytes without pictures`);

  const second = await meter(visitor.page);
  await visitor.reload();
  await visitor.see(".note-card");
  assert.ok(second.kept >= 25, `${second.kept} files were kept`);
  assert.ok(second.bytes < first.bytes / 2, `${second.bytes} bytes the second time`);
  note(`first view: ${first.bytes} bytes in ${first.files} answers, and ${first.pictures} of pictures; second: ${second.bytes} bytes`);

  const policy = (await fetch(`${PAGE}/`)).headers.get("content-security-policy");
  assert.match(policy, /default-src 'none'/);
  assert.doesNotMatch(policy, /unsafe|\*|https?:/);

  // Every screen that is shown is a view of the page, also one that somebody comes back to.
  const before = await call("GET", "/stats/pv");
  for (const path of ["/map", "/shops", "/goods"]) await visitor.go(path);
  await visitor.page.goBack();
  await visitor.see(".shop-card");
  let seen = 0;
  for (let look = 0; look < 200 && seen < before + 4; look += 1) {
    seen = await call("GET", "/stats/pv");
    await new Promise((done) => setTimeout(done, 50));
  }
  assert.equal(seen, before + 4);
});
