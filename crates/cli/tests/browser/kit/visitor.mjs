// Somebody at the page: sees what is to be seen, and clicks, taps and types where a person would.

import { Watcher } from "./watcher.mjs";

/** How long anything may take: the machine may be busy with other tests. */
const PATIENCE_MS = 30_000;
const LOOK_MS = 50;
/** A moment without a request, after which a screen has what it asks for. */
const IDLE_MS = 150;

const SIZES = {
  phone: { width: 390, height: 844, isMobile: true, hasTouch: true },
  desktop: { width: 1280, height: 900 },
};

/** Runs in the page before anything else: once, it leaves there what an earlier visit would have. */
function leave(kept) {
  if (location.protocol !== "http:" || sessionStorage.getItem("visited")) return;
  sessionStorage.setItem("visited", "yes");
  for (const [name, value] of kept) localStorage.setItem(`seawall.${name}`, value);
}

export class Visitor {
  /** `size` is phone or desktop; `language` and `token` are what an earlier visit left behind. */
  static async open(context, origin, { size = "desktop", theme = "light", language, token, document = "/", path = "/", prepare } = {}) {
    const visitor = new Visitor();
    const page = await context.newPage();
    page.setDefaultTimeout(PATIENCE_MS);
    Object.assign(visitor, { context, origin, page, size, watcher: new Watcher(page, origin) });
    await page.setViewport(SIZES[size]);
    await visitor.colours(theme);
    await prepare?.(page);
    await page.evaluateOnNewDocument(leave, Object.entries({ language, token }).filter(([, value]) => value));
    await page.goto(`${origin}${document}#${path}`);
    if (document === "/") await visitor.settled();
    return visitor;
  }

  /** Light or dark, and nothing moves: what is looked at stands still. */
  colours(theme) {
    return this.page.emulateMediaFeatures([
      { name: "prefers-color-scheme", value: theme }, { name: "prefers-reduced-motion", value: "reduce" }]);
  }

  /** Waits until `test(...args)`, a function that runs in the page, is true. */
  async until(what, test, ...args) {
    try {
      return await this.page.waitForFunction(test, { polling: LOOK_MS }, ...args);
    } catch (error) {
      throw new Error(`waited in vain until ${what}: ${error.message.split("\n")[0]}`);
    }
  }

  /** Waits until something is to be seen, with a text when that matters. */
  async see(selector, wanted = "") {
    const what = wanted ? `${selector} says ${wanted}` : `${selector} is there`;
    const [source, flags] = wanted instanceof RegExp ? [wanted.source, wanted.flags] : [null, ""];
    await this.until(what, (selector, wanted, source, flags) => [...document.querySelectorAll(selector)].some((node) => {
      if (!node.checkVisibility()) return false;
      const text = node.innerText ?? node.textContent;
      return source === null ? text.includes(wanted) : new RegExp(source, flags).test(text);
    }), selector, String(wanted), source, flags);
  }

  /** Waits until something is not to be seen. */
  async gone(selector) {
    await this.until(`${selector} is gone`, (selector) => ![...document.querySelectorAll(selector)].some((node) => node.checkVisibility()), selector);
  }

  /** The text of the first, as it is seen. */
  text(selector) {
    return this.page.$eval(selector, (node) => node.innerText.replace(/\s+/g, " ").trim());
  }

  count(selector) {
    return this.page.$$eval(selector, (nodes) => nodes.length);
  }

  path() {
    return this.page.evaluate(() => location.hash.slice(1));
  }

  /** Waits until the screen is whole: no grey shapes, nothing on its way, pictures in sight are there. */
  async settled() {
    await this.see("main h1, main .state");
    await this.page.waitForNetworkIdle({ idleTime: IDLE_MS });
    await this.gone("main .skeleton");
    await this.until("pictures are there", () => [...document.images].every((image) => image.complete
      || image.getBoundingClientRect().top > innerHeight || image.getBoundingClientRect().bottom < 0));
  }

  /** Goes to another screen by its address. */
  async go(path) {
    await this.page.evaluate((path) => {
      document.querySelector("main").firstElementChild?.setAttribute("data-before", "");
      if (location.hash === `#${path}`) location.reload();
      else location.hash = path;
    }, path);
    await this.until(`${path} is shown`, () => {
      const main = document.querySelector("main");
      return main?.firstElementChild && !main.querySelector("[data-before]");
    });
    await this.settled();
  }

  async reload() {
    await this.page.reload();
    await this.settled();
  }

  /** Presses the first of these that is seen; whatever lies over it is an error. */
  async press(selector) {
    await this.until(`${selector} can be pressed`, (selector) => {
      const node = [...document.querySelectorAll(selector)].find((one) => one.checkVisibility());
      return node && !node.disabled && !node.getAttribute("aria-busy");
    }, selector);
    const at = await this.page.evaluate((selector) => {
      const node = [...document.querySelectorAll(selector)].find((one) => one.checkVisibility());
      node.scrollIntoView({ block: "center", inline: "center", behavior: "instant" });
      const { left, top, width, height } = node.getBoundingClientRect();
      const [x, y] = [left + width / 2, top + height / 2];
      const hit = document.elementFromPoint(x, y);
      return { x, y, cover: node.contains(hit) ? "" : (hit?.outerHTML.slice(0, 200) ?? "nothing") };
    }, selector);
    if (at.cover) throw new Error(`${selector} cannot be reached, there is ${at.cover}`);
    if (this.size === "phone") await this.page.touchscreen.tap(at.x, at.y);
    else await this.page.mouse.click(at.x, at.y);
  }

  /** Writes into a field instead of what is there. */
  async fill(selector, text) {
    await this.press(selector);
    await this.page.$eval(selector, (node) => node.select?.());
    await this.page.keyboard.type(text);
  }

  /** Logs in by the code that the page shows. */
  async logIn(phone) {
    await this.go("/login");
    await this.fill("input[name=phone]", phone);
    await this.press("[data-do=code]");
    await this.see(".sent .code", /^\d{6}$/);
    await this.press("form.card button[type=submit]");
    await this.see(".head-user .avatar");
    await this.settled();
  }

  /** Says yes to a question that the page asks. */
  async confirm() {
    await this.press("dialog[open] button.danger");
    await this.gone("dialog");
  }
}
