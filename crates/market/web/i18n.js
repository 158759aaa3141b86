// Texts, numbers and times in the reader's language and format.

import { now } from "./api.js";
import { store } from "./store.js";

const LANGUAGES = {
  en: () => import("./words/en.js"),
  zh: () => import("./words/zh.js"),
};
const MINUTE = 60;
const STEPS = [["day", 86_400], ["hour", 3600], ["minute", MINUTE]];
const RELATIVE_DAYS = 7;

let words = {};

export async function loadWords() {
  words = (await LANGUAGES[store.get("language")]()).default;
}

/** The text of a key; texts that need values are functions. A key without a text shows itself. */
export function t(key, values) {
  const text = words[key];
  return typeof text === "function" ? text(values ?? {}) : (text ?? key);
}

export const has = (key) => key in words;

/** The reader's own locale where it is of the language that was chosen: dates in en-GB are not those of en-US. */
function locale() {
  const language = store.get("language");
  const own = navigator.languages?.find((tag) => tag.startsWith(language));
  return own ?? (language === "zh" ? "zh-CN" : "en");
}

const number = (options) => new Intl.NumberFormat(locale(), options);

export const count = (value) => number({ notation: value >= 10_000 ? "compact" : "standard" }).format(value);
export const score = (tenths) => number({ minimumFractionDigits: 1, maximumFractionDigits: 1 }).format(tenths / 10);

/** Cents as money. */
export function money(cents) {
  const whole = cents % 100 === 0;
  return number({ style: "currency", currency: "CNY", currencyDisplay: "narrowSymbol", minimumFractionDigits: whole ? 0 : 2, maximumFractionDigits: 2 }).format(cents / 100);
}

export function distance(metres) {
  if (metres < 1000) return number({ style: "unit", unit: "meter", maximumFractionDigits: 0 }).format(Math.round(metres / 10) * 10);
  return number({ style: "unit", unit: "kilometer", maximumFractionDigits: 1 }).format(metres / 1000);
}

export const dateTime = (text) => new Intl.DateTimeFormat(locale(), { dateStyle: "medium", timeStyle: "short" }).format(new Date(text));
export const date = (text) => new Intl.DateTimeFormat(locale(), { dateStyle: "medium" }).format(new Date(text));
export const monthName = (year, month) => new Intl.DateTimeFormat(locale(), { year: "numeric", month: "long" }).format(new Date(year, month - 1, 1));
/** Monday first. */
export const weekdays = () => [1, 2, 3, 4, 5, 6, 7].map((day) => {
  const at = new Date(2024, 0, day);
  const name = (weekday) => new Intl.DateTimeFormat(locale(), { weekday }).format(at);
  return { short: name("narrow"), long: name("long") };
});

/** "3 hours ago" for what is recent, a date for the rest. */
export function ago(text) {
  const seconds = Math.max(0, (now() - Date.parse(text)) / 1000);
  if (seconds > RELATIVE_DAYS * 86_400) return date(text);
  const [unit, size] = STEPS.find(([, step]) => seconds >= step) ?? ["minute", MINUTE];
  return new Intl.RelativeTimeFormat(locale(), { numeric: "auto" }).format(-Math.floor(seconds / size), unit);
}

/** Seconds as 1 d 02:03:04. */
export function span(seconds) {
  const two = (value) => String(Math.floor(value)).padStart(2, "0");
  const days = Math.floor(seconds / 86_400);
  const rest = seconds % 86_400;
  const clock = rest >= 3600 || days ? `${two(rest / 3600)}:${two((rest % 3600) / 60)}:${two(rest % 60)}` : `${two(rest / 60)}:${two(rest % 60)}`;
  return days ? t("time.days", { days, clock }) : clock;
}
