// Pictures of screens: all of them for whoever looks into target/, the main ones for the documentation.

import { mkdirSync } from "node:fs";
import path from "node:path";

const FOLDER = process.env.SHOTS;
const IS_DOCS = path.basename(path.dirname(FOLDER)) === "docs";
const QUALITY = 70;
/** Those that the documentation shows in Chinese as well, in light. */
const CHINESE = new Set(["home", "sale", "shop", "signin"]);

function isWanted({ screen, theme, language }) {
  if (!IS_DOCS) return true;
  return language === "zh" ? theme === "light" && CHINESE.has(screen.name) : Boolean(screen.isMain);
}

/** Takes a picture of what is in sight. */
export async function picture({ page, size }, shot) {
  if (!isWanted(shot)) return;
  mkdirSync(FOLDER, { recursive: true });
  await page.evaluate(() => { window.scrollTo(0, 0); document.activeElement?.blur(); });
  const { screen, theme, language } = shot;
  const name = [screen.name, size, theme, ...(language === "en" ? [] : [language])].join("-");
  await page.screenshot({ path: path.join(FOLDER, `${name}.webp`), type: "webp", quality: QUALITY });
}
