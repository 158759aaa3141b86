// The start: who is here, in which language, and then the first screen.

import { market, session } from "./api.js";
import { loadUser } from "./account.js";
import { loadWords } from "./i18n.js";
import { start, show, moveTo } from "./router.js";
import { store } from "./store.js";
import { drawShell } from "./components/shell.js";

/** How often the service is asked while something is wrong with it. */
const HEALTH_MS = 3_000;

/** While something is wrong, asks whether it still is; a screen that failed is shown anew afterwards. */
function watchHealth() {
  let timer;
  store.on("health", async (health) => {
    clearInterval(timer);
    if (health !== "well") {
      timer = setInterval(() => market.ready().then(() => store.set("health", "well"), () => {}), HEALTH_MS);
      return;
    }
    if (session.token && !store.get("user")) await loadUser();
    if (document.querySelector("main .state.failed")) await show({ keepFocus: true });
  });
  window.addEventListener("offline", () => store.set("health", "offline"));
}

function redraw() {
  moveTo(drawShell(document.getElementById("app")));
}

store.on("language", async () => {
  await loadWords();
  redraw();
  await show({ keepFocus: true });
});
watchHealth();
await Promise.all([loadWords(), loadUser()]);
const main = drawShell(document.getElementById("app"));
// Another tab may have logged in or out.
window.addEventListener("storage", (event) => { if (event.key === "seawall.token") loadUser(); });
await start(main);
