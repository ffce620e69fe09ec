import type { Theme } from "./state";

const dark = matchMedia("(prefers-color-scheme: dark)");
const paper = matchMedia("print");
const page = document.documentElement;

/** What a theme comes to now: "auto" follows the system. */
export function resolved(theme: Theme): "light" | "dark" {
  if (theme !== "auto") return theme;
  return dark.matches ? "dark" : "light";
}

/** Puts a theme on the page, from where the style sheet and the plots read it; paper is light. */
export function apply(theme: Theme): void {
  const wanted = "printing" in page.dataset ? "light" : resolved(theme);
  if (page.dataset.theme !== wanted) page.dataset.theme = wanted;
}

export function onSystemTheme(changed: () => void): void {
  dark.addEventListener("change", changed);
}

/** Marks the page while it is printed, so that plots are painted anew for paper and as wide as it is. */
export function onPaper(changed: () => void): void {
  const turn = (printing: boolean): void => {
    page.toggleAttribute("data-printing", printing);
    changed();
  };
  paper.addEventListener("change", () => turn(paper.matches));
  window.addEventListener("beforeprint", () => turn(true));
  window.addEventListener("afterprint", () => turn(false));
}
