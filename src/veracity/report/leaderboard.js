"use strict";
// Rows are sorted within their group, so that controls stay apart; cells without a number come last in either order.
function sortBy(table, column, best) {
  const numeric = table.tHead.rows[0].cells[column].dataset.kind === "number";
  for (const body of table.tBodies) {
    const rows = Array.from(body.rows).filter((row) => !row.classList.contains("title"));
    const key = (row) => {
      const cell = row.cells[column];
      if (!numeric) return cell.textContent;
      return "key" in cell.dataset ? Number(cell.dataset.key) : null;
    };
    const compare = (a, b) => {
      const [x, y] = [key(a), key(b)];
      if (x === null || y === null) return (x === null) - (y === null);
      const order = numeric ? x - y : x.localeCompare(y);
      return best ? order : -order;
    };
    body.append(...rows.sort(compare));
  }
}
for (const table of document.querySelectorAll("table.board")) {
  const heads = Array.from(table.tHead.rows[0].cells);
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const best = head.dataset.order !== "first";
      for (const other of heads) {
        delete other.dataset.order;
        other.removeAttribute("aria-sort");
      }
      head.dataset.order = best ? "first" : "last";
      const rising = head.dataset.kind === "name" || head.dataset.better === "lower";
      head.setAttribute("aria-sort", rising === best ? "ascending" : "descending");
      sortBy(table, column, best);
    });
  });
}
const form = document.querySelector(".filters");
form.hidden = false;
form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("change", () => {
  const [model, score] = ["model", "score"].map((name) => form.querySelector(`[data-filter="${name}"]`).value);
  for (const section of document.querySelectorAll("section[data-model]")) {
    const shown = !score || section.querySelector(`thead [data-score="${score}"]`) !== null;
    section.hidden = !shown || (model !== "" && section.dataset.model !== model);
  }
  for (const cell of document.querySelectorAll("[data-score]")) cell.hidden = score !== "" && cell.dataset.score !== score;
  for (const tally of document.querySelectorAll(".tally")) tally.hidden = model !== "" || score !== "";
});
