// Who is logged in and how much is in their cart, put into the store.

import { market, session } from "./api.js";
import { store } from "./store.js";

/** Reads who is logged in; a session that has ended is forgotten. */
export async function loadUser() {
  if (!session.token) return store.set("user", null);
  try {
    store.set("user", await market.me());
    await loadCart();
  } catch {
    // Also when nobody can say who this is: the token stays, and the next start asks again.
    store.set("user", null);
  }
}

export async function loadCart() {
  if (!store.get("user")) return store.set("cartCount", 0);
  const lines = await market.cart().catch(() => null);
  if (lines) store.set("cartCount", lines.reduce((sum, line) => sum + line.count, 0));
}

/** Ends the session here even when the service cannot be told. */
export async function logOut() {
  await market.logOut().catch(() => {});
  session.token = null;
  store.set("user", null);
  store.set("cartCount", 0);
}
