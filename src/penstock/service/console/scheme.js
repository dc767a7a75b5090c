// Light, dark, or as the system has it. The colours themselves are in one style sheet, where dark is one media rule.

const KEEP = "penstock.colours";
const RULES = { system: "screen and (prefers-color-scheme: dark)", light: "not all", dark: "screen" };
const NATIVE = { system: "light dark", light: "light", dark: "dark" };

export function chosenScheme() {
  return localStorage.getItem(KEEP) in RULES ? localStorage.getItem(KEEP) : "system";
}

/** Chooses the next one and returns its name. */
export function nextScheme() {
  const names = Object.keys(RULES);
  localStorage.setItem(KEEP, names[(names.indexOf(chosenScheme()) + 1) % names.length]);
  apply();
  return chosenScheme();
}

function apply() {
  const { sheet } = document.getElementById("colours");
  const dark = [...sheet.cssRules].find((rule) => rule instanceof CSSMediaRule);
  dark.media.mediaText = RULES[chosenScheme()];
  document.documentElement.style.colorScheme = NATIVE[chosenScheme()];
}

apply();
