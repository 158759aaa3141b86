// The state that more than one screen shares. Everything else belongs to its screen.

const LANGUAGE = "seawall.language";
const THEME = "seawall.theme";
const listeners = new Map();

const state = {
  /** Who is logged in: `{id, nickName, icon, role}` or null. */
  user: null,
  /** "en" or "zh". */
  language: document.documentElement.lang.startsWith("zh") ? "zh" : "en",
  /** "auto", "light" or "dark". */
  theme: document.documentElement.dataset.theme ?? "auto",
  /** Units in the cart. */
  cartCount: 0,
  /** "well", "degraded" or "offline". */
  health: "well",
  /** Where distances are counted from: `{x, y, own}`. */
  place: null,
  /** The path of the screen, without its parameters. */
  path: "",
};

const remember = {
  language(value) {
    localStorage.setItem(LANGUAGE, value);
    document.documentElement.lang = value === "zh" ? "zh-CN" : "en";
  },
  theme(value) {
    localStorage.setItem(THEME, value);
    if (value === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = value;
  },
};

export const store = {
  get(name) { return state[name]; },
  set(name, value) {
    if (state[name] === value) return;
    state[name] = value;
    remember[name]?.(value);
    for (const listener of listeners.get(name) ?? []) listener(value);
  },
  /** Calls `listener` after each change, until `signal` is aborted. */
  on(name, listener, signal) {
    if (!listeners.has(name)) listeners.set(name, new Set());
    listeners.get(name).add(listener);
    signal?.addEventListener("abort", () => listeners.get(name).delete(listener));
  },
};
