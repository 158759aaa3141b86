// The API's own page: found by a word, tried as somebody, and accessible as the rest.

import assert from "node:assert/strict";
import { inaccessible, tooWide } from "../kit/checks.mjs";
import { scenario } from "../kit/stage.mjs";

await scenario(async ({ visit }) => {
  for (const size of ["phone", "desktop"]) {
    const reader = await visit({ size, document: "/docs", path: "" });
    await reader.see("summary", "/shop-type/list");
    for (const theme of ["light", "dark"]) {
      await reader.colours(theme);
      assert.deepEqual([...await inaccessible(reader), ...await tooWide(reader)], [], `${size}, ${theme}`);
    }
    if (size === "phone") continue;
    await reader.press("#login-form button");
    await reader.see("#who", "Logged in as Ada");
    await reader.fill("#filter", "GET /user/me");
    await reader.press("details:not([hidden]) summary");
    await reader.press("details[open] button[type=submit]");
    await reader.see("details[open] pre", /200 OK[^]*"nickName": "Ada"/);
  }
});
