"use strict";
// Each button in the head of a table sorts its rows by that column, and by the same column again in the other direction.
for (const button of document.querySelectorAll("table.sortable thead button")) {
  button.addEventListener("click", () => {
    const head = button.closest("th");
    const body = head.closest("table").tBodies[0];
    const column = head.cellIndex;
    const numeric = head.classList.contains("n");
    const before = head.getAttribute("aria-sort");
    // Numbers start with the largest, names with the first of the alphabet.
    const direction = before ? (before === "ascending" ? "descending" : "ascending") : numeric ? "descending" : "ascending";
    const sign = direction === "ascending" ? 1 : -1;
    const key = (row) => {
      const cell = row.cells[column];
      return numeric ? parseFloat(cell.dataset.value) : cell.textContent.trim();
    };
    const compare = (a, b) => {
      if (!numeric) return sign * a.key.localeCompare(b.key, undefined, { numeric: true });
      // Cells without a number are last in both directions.
      if (isNaN(a.key) || isNaN(b.key)) return isNaN(a.key) - isNaN(b.key);
      return sign * (a.key - b.key);
    };
    const rows = Array.from(body.rows, (row) => ({ row, key: key(row) }));
    rows.sort(compare);
    body.append(...rows.map((entry) => entry.row));
    for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", direction);
  });
}
// On paper, everything is open; browsers that know ::details-content do without this.
const closed = [];
addEventListener("beforeprint", () => {
  closed.push(...document.querySelectorAll("details:not([open])"));
  for (const element of closed) element.open = true;
});
addEventListener("afterprint", () => {
  for (const element of closed.splice(0)) element.open = false;
});
// Sections that are closed on phones: browsers that do not know ::details-content need this to open them elsewhere.
if (!CSS.supports("selector(::details-content)") && !matchMedia("(max-width: 40rem)").matches) {
  for (const element of document.querySelectorAll("details.fold")) element.open = true;
}
// A link to a closed document opens it.
const openTarget = () => {
  const target = document.getElementById(location.hash.slice(1));
  const element = target?.closest("details");
  if (element) element.open = true;
};
addEventListener("hashchange", openTarget);
openTarget();
