// Every screen, in English light and dark: accessible, no text without words, not wider than the screen; and a picture of it.
// `screens.mjs phone|desktop [zh]`

import { SCREENS, furnish } from "../kit/screens.mjs";
import { inaccessible, tooWide, untranslated } from "../kit/checks.mjs";
import { enter } from "../kit/api.mjs";
import { picture } from "../kit/pictures.mjs";
import { note, scenario } from "../kit/stage.mjs";

const [size, language = "en"] = process.argv.slice(2);
/** Colours do not depend on the language. */
const THEMES = language === "en" ? ["light", "dark"] : ["light"];

await scenario(async ({ visit }) => {
  const token = await enter("10000000001");
  const made = await furnish(token);
  const ada = await visit({ size, language, token });
  const guest = await visit({ size, language });
  const wrong = [];
  for (const screen of SCREENS) {
    const visitor = screen.guest ? guest : ada;
    await visitor.page.bringToFront();
    await visitor.go(screen.path(made));
    await visitor.see(screen.shows);
    await screen.before?.(visitor);
    for (const theme of THEMES) {
      await visitor.colours(theme);
      const found = [...await inaccessible(visitor), ...await untranslated(visitor), ...await tooWide(visitor)];
      wrong.push(...found.map((finding) => `${screen.name}, ${theme}: ${finding}`));
      await picture(visitor, { screen, theme, language });
    }
  }
  note(`${SCREENS.length} screens on a ${size} in ${language}`);
  if (wrong.length) throw new Error(wrong.join("\n"));
});
