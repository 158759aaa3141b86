// What was said to a note: threads with their replies, and a place to say something.

import { market } from "../api.js";
import { el, say } from "../dom.js";
import { ago, t } from "../i18n.js";
import { loggedIn } from "../router.js";
import { store } from "../store.js";
import { field, form } from "./field.js";
import { byTotal, scrollList } from "./list.js";
import { avatar } from "./picture.js";
import { empty } from "./states.js";
import { toastError } from "./toast.js";

const MOST_CHARACTERS = 1_000;

function writer(label, submit, send) {
  const text = field(label, el("textarea", { rows: 2, maxlength: MOST_CHARACTERS, required: true }));
  return form({
    className: "comment-form", fields: [text.node], submit,
    async work() {
      if (!loggedIn()) return;
      await send(text.control.value.trim());
      text.control.value = "";
    },
  });
}

export function comments(note, signal) {
  const heading = el("h2", { tabIndex: -1 }, t("comments"));
  const section = el("section.comments");
  const list = scrollList({ load: byTotal((page) => market.comments(note.id, page)), draw: thread, className: "threads", label: t("comments"), signal,
    nothing: () => empty(t("comments.none"), { sign: "comment" }) });

  async function send(content, place = {}) {
    await market.comment(note.id, { content, ...place });
    await list.restart();
    say(t("comment.sent"));
    // The form of a reply is gone with the list that it stood in.
    if (!section.contains(document.activeElement)) heading.focus();
  }

  function one(comment, root, names) {
    const answered = comment.answerId !== "0" && comment.answerId !== root.id ? names.get(comment.answerId) : null;
    const area = el("div");
    const reply = el("button.plain.link", { type: "button", "aria-expanded": "false", onclick: () => {
      if (area.firstChild) { area.replaceChildren(); reply.setAttribute("aria-expanded", "false"); return; }
      if (!loggedIn()) return;
      area.append(writer(t("reply.to", { name: comment.name }), t("reply.do"), (content) => send(content, { parentId: root.id, answerId: comment.id })));
      reply.setAttribute("aria-expanded", "true");
      area.querySelector("textarea").focus();
    } }, t("reply"));
    return el("article.comment", avatar(comment.userId, comment.icon),
      el("div",
        el("p.row.tight", el("a.name", { href: `#/person/${comment.userId}` }, comment.name), el("time.soft.small", { datetime: comment.createTime }, ago(comment.createTime))),
        el("p", answered ? el("span.soft", t("reply.at", { name: answered }), " ") : null, comment.content), reply, area));
  }

  function thread(root) {
    const names = new Map();
    const drawn = (replies) => {
      for (const reply of replies) names.set(reply.id, reply.name);
      return replies.map((reply) => el("li", one(reply, root, names)));
    };
    const replies = el("ul.plain-list.replies", drawn(root.replies));
    let last = root.replies.at(-1);
    // A long thread goes on by its own button.
    const more = el("button.plain.link", { type: "button", onclick: async () => {
      more.disabled = true;
      try {
        const next = await market.replies(note.id, root.id, last.id);
        last = next.data.at(-1) ?? last;
        replies.append(...drawn(next.data));
        if (names.size >= next.total || !next.data.length) more.remove();
      } catch (error) {
        toastError(error);
      }
      more.disabled = false;
    } }, t("more"));
    return [one(root, root, names), last ? replies : null, root.replyCount > root.replies.length ? more : null];
  }

  const top = store.get("user")
    ? writer(t("comment.say"), t("comment.do"), (content) => send(content))
    : el("p", el("button.quiet", { type: "button", onclick: () => loggedIn() }, t("comment.login")));
  section.append(heading, top, list.node);
  return section;
}
