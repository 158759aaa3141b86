// The calendar of sign-ins and how many days in a row it is.

import { market } from "../api.js";
import { el } from "../dom.js";
import { monthName, t, weekdays } from "../i18n.js";
import { loggedIn } from "../router.js";
import { action } from "../components/field.js";
import { icon } from "../components/icon.js";
import { toast, toastError } from "../components/toast.js";

const WEEK = 7;

const two = (number) => String(number).padStart(2, "0");
function shift(month, by) {
  const [year, number] = month.split("-").map(Number);
  const at = new Date(year, number - 1 + by, 1);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}`;
}

/** The month as a table of weeks, Monday first. */
function table({ month, days, elapsed }, isThisMonth) {
  const [year, number] = month.split("-").map(Number);
  const signed = new Set(days);
  const before = (new Date(year, number - 1, 1).getDay() + 6) % WEEK;
  const last = new Date(year, number, 0).getDate();
  const cells = [...Array(before).fill(0), ...Array.from({ length: last }, (_, at) => at + 1)];
  while (cells.length % WEEK) cells.push(0);
  const cell = (day) => {
    if (!day) return el("td");
    const isSigned = signed.has(day);
    const isToday = isThisMonth && day === elapsed;
    return el(`td${isSigned ? ".signed" : day > elapsed ? ".later" : ""}${isToday ? ".today" : ""}`, { "aria-current": isToday ? "date" : undefined },
      el("span", String(day)), isSigned ? el("span.unseen", t("signin.signed")) : null);
  };
  const rows = Array.from({ length: cells.length / WEEK }, (_, week) => el("tr", cells.slice(week * WEEK, (week + 1) * WEEK).map(cell)));
  return el("table.calendar", el("caption.unseen", monthName(year, number)),
    el("thead", el("tr", weekdays().map(({ short, long }) => el("th", { scope: "col", abbr: long }, short)))), el("tbody", rows));
}

export default async function signin({ title }) {
  title(t("signin"));
  if (!loggedIn()) return null;
  const [first, streak] = await Promise.all([market.signed(), market.streak()]);
  const thisMonth = first.month;
  let shown = first;
  const body = el("div");
  const heading = el("h2", { "aria-live": "polite" });
  const days = el("p.streak");
  const button = action("button.large", { "data-do": "sign" }, "", sign, toastError);
  const later = el("button.round", { type: "button", "aria-label": t("signin.next"), onclick: () => turn(1) }, icon("right"));

  const isSignedToday = (month) => month.days.includes(month.elapsed);
  function drawStreak(number, month) {
    days.replaceChildren(el("strong", String(number)), " ", t("signin.row", { count: number }));
    button.disabled = isSignedToday(month);
    button.textContent = t(isSignedToday(month) ? "signin.done" : "signin.do");
  }
  function draw() {
    const [year, number] = shown.month.split("-").map(Number);
    heading.textContent = monthName(year, number);
    later.disabled = shown.month >= thisMonth;
    body.replaceChildren(table(shown, shown.month === thisMonth));
  }
  async function turn(by) {
    try {
      shown = await market.signed(shift(shown.month, by));
      draw();
    } catch (error) { toastError(error); }
  }
  async function sign() {
    const { already } = await market.sign();
    const [month, number] = await Promise.all([market.signed(), market.streak()]);
    shown = month;
    draw();
    drawStreak(number, month);
    toast(t(already ? "signin.already" : "signin.thanks", { count: number }), { kind: "good" });
  }

  draw();
  drawStreak(streak, first);
  return el("div.page.narrow-page", el("h1", t("signin")),
    el("div.card.padded.signin", el("div.row.between", days, button),
      el("div.row.between.month", el("button.round", { type: "button", "aria-label": t("signin.before"), onclick: () => turn(-1) }, icon("left")), heading, later),
      body));
}
