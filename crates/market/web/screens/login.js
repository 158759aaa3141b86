// Login by a code that is sent to a phone; a new number registers itself.

import { loadUser } from "../account.js";
import { market, session } from "../api.js";
import { el } from "../dom.js";
import { t } from "../i18n.js";
import { go } from "../router.js";
import { store } from "../store.js";
import { countdown } from "../components/countdown.js";
import { busy, field, form } from "../components/field.js";
import { explain, toast } from "../components/toast.js";

const AGAIN_MS = 60_000;

export default function login({ query, signal, title }) {
  title(t("login"));
  const to = query.get("to")?.startsWith("/") ? query.get("to") : "/me";
  if (store.get("user")) { go(to, { replace: true }); return null; }
  const phone = field(t("login.phone"), el("input", { type: "tel", inputmode: "numeric", autocomplete: "tel", maxlength: 11, required: true, pattern: "[0-9]{11}", name: "phone", placeholder: "10000000001" }), { hint: t("login.phone.hint") });
  const code = field(t("login.code"), el("input", { inputmode: "numeric", autocomplete: "one-time-code", maxlength: 6, pattern: "[0-9]{6}", name: "code" }));
  const sent = el("p.sent", { role: "status" });
  const send = el("button.quiet", { type: "button", "data-do": "code" }, t("login.send"));

  /** The next code takes a while; the button says how long. */
  function wait(ms) {
    send.disabled = true;
    const free = () => { send.disabled = false; send.textContent = t("login.again"); };
    send.replaceChildren(t("login.wait"), " ", countdown(Date.now() + ms, signal, free));
  }

  send.addEventListener("click", () => {
    if (!/^[0-9]{11}$/.test(phone.control.value)) {
      phone.fail(t("error.INVALID_PHONE"));
      phone.control.focus();
      return;
    }
    // What went wrong before is over.
    phone.fail("");
    busy(send, async () => {
      const answer = await market.sendCode(phone.control.value);
      if (answer?.code) {
        code.control.value = answer.code;
        sent.replaceChildren(t("login.echo"), " ", el("b.code", answer.code));
      } else {
        sent.textContent = t("login.sent");
        wait(AGAIN_MS);
      }
      code.fail("");
      code.control.focus();
    }, (error) => {
      phone.fail(explain(error));
      if (error.retryAfter) wait(error.retryAfter * 1000);
    });
  });

  const node = form({
    className: "card.padded.narrow",
    fields: [phone.node, send, sent, code.node],
    submit: t("login.do"),
    async work() {
      if (!/^[0-9]{6}$/.test(code.control.value)) {
        code.fail(t("login.code.bad"));
        code.control.focus();
        return;
      }
      try {
        session.token = await market.logIn(phone.control.value, code.control.value);
      } catch (error) {
        if (error.status !== 400) throw error;
        code.fail(explain(error));
        code.control.focus();
        return;
      }
      await loadUser();
      toast(t("login.welcome", { name: store.get("user")?.nickName ?? "" }), { kind: "good" });
      go(to, { replace: true });
    },
  });
  return el("div.page.narrow-page", el("h1", t("login.title")), el("p.soft", t("login.text")), node);
}
