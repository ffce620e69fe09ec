// Words of the detail view that change while the reader drags: built when their form changes, else only filled anew.

import { swatchFill } from "../colour";
import { el, keep } from "../dom";
import type { DetailData, Table } from "./data";

export function swatch(colour: string): HTMLElement {
  const mark = el("span", { class: "plot-mark" });
  mark.style.background = swatchFill(colour);
  return mark;
}

/** A function that builds a host's content when the key changes, and fills its live places with words every time. */
function filling(host: HTMLElement): (key: string, build: () => Node[], words: string[]) => void {
  let known = "";
  return (key, build, words) => {
    if (key !== known) host.replaceChildren(...build());
    known = key;
    host.querySelectorAll("[data-live]").forEach((place, index) => {
      keep(place, { textContent: words[index] });
    });
  };
}

/** One line a model: what it says. */
export function predictionsOn(host: HTMLElement): (models: DetailData["models"], said: Map<string, string>) => void {
  const fill = filling(host);
  return (models, said) => {
    const lines = (): Node[] =>
      models.map(({ name, colour }) => {
        const words = el("span", { class: "plot-value", "data-live": true, "data-testid": `prediction-${name}` });
        return el("div", { class: "plot-entry" }, swatch(colour), el("span", { class: "plot-name" }, name), words);
      });
    fill(JSON.stringify(models.map(({ name, colour }) => [name, colour])), lines, models.map(({ name }) => said.get(name) ?? "no output"));
  };
}

/** A table with the model before every row; nothing where it has no rows. */
export function tableOn(host: HTMLElement): (table: Table | undefined) => void {
  const fill = filling(host);
  return (table = { heads: [], rows: [] }) => {
    const { heads, rows } = table;
    const key = JSON.stringify([heads, rows.map(({ model, cells }) => [model.name, model.colour, cells.length])]);
    fill(key, () => (rows.length ? [build(heads, rows)] : []), rows.flatMap(({ cells }) => cells));
  };
}

function build(heads: string[], rows: Table["rows"]): HTMLElement {
  const head = el("tr", {}, ...["model", ...heads].map((name) => el("th", { scope: "col" }, name)));
  const body = rows.map(({ model, cells }) => {
    const first = el("th", { scope: "row" }, el("span", { class: "plot-entry" }, swatch(model.colour), model.name));
    return el("tr", {}, first, ...cells.map(() => el("td", { "data-live": true })));
  });
  return el("table", { class: "detail-table" }, el("thead", {}, head), el("tbody", {}, ...body));
}
