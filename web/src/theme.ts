import type { Theme } from "./state";

const dark = matchMedia("(prefers-color-scheme: dark)");

/** What a theme comes to now: "auto" follows the system. */
export function resolved(theme: Theme): "light" | "dark" {
  if (theme !== "auto") return theme;
  return dark.matches ? "dark" : "light";
}

/** Puts a theme on the page, from where the style sheet and the plots read it. */
export function apply(theme: Theme): void {
  const wanted = resolved(theme);
  if (document.documentElement.dataset.theme !== wanted) document.documentElement.dataset.theme = wanted;
}

export function onSystemTheme(changed: () => void): void {
  dark.addEventListener("change", changed);
}
