// Runs before anything is drawn, so that a chosen theme does not flash. Everything else is in app.js.
{
  const theme = localStorage.getItem("seawall.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  const language = localStorage.getItem("seawall.language") ?? navigator.language;
  document.documentElement.lang = language.startsWith("zh") ? "zh-CN" : "en";
}
