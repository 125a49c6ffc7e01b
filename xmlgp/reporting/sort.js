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
