// Table of faithfulness metrics with their baselines.
const SIGNIFICANT = 0.95;
// Three decimals; small numbers in scientific notation.
const figure = (value) => (typeof value !== "number" ? "–" : value !== 0 && Math.abs(value) < 0.001 ? value.toExponential(1) : value.toFixed(3));
function fillMetrics(table, rows, explained) {
  const keys = ["attention", "random", "uniform"];
  const head = document.createElement("thead").insertRow();
  for (const name of ["metric", ...keys]) head.append(Object.assign(document.createElement("th"), { scope: "col", textContent: name }));
  const body = document.createElement("tbody");
  for (const row of rows) {
    const line = body.insertRow();
    if (row.better_than >= SIGNIFICANT) line.className = "good";
    line.append(Object.assign(document.createElement("th"), { scope: "row", textContent: row.name }));
    for (const key of keys) line.insertCell().textContent = figure(row[key]);
    if (!explained || !row.description) continue;
    const explain = body.insertRow();
    explain.className = "explain";
    Object.assign(explain.insertCell(), { colSpan: 4, textContent: row.description });
  }
  table.replaceChildren(head.parentElement, body);
}
