// How far a picture may be believed: a table of figures beside their controls.
const GOOD = 0.95;
// Three places, and no zero that is none.
const figure = (value) => (typeof value !== "number" ? "–" : value !== 0 && Math.abs(value) < 0.001 ? value.toExponential(1) : value.toFixed(3));
function fillMeasures(table, rows, explained) {
  const keys = ["attention", "random", "uniform"];
  const head = document.createElement("thead").insertRow();
  for (const name of ["measure", ...keys]) head.append(Object.assign(document.createElement("th"), { scope: "col", textContent: name }));
  const body = document.createElement("tbody");
  for (const row of rows) {
    const line = body.insertRow();
    if (row.better_than >= GOOD) line.className = "good";
    line.append(Object.assign(document.createElement("th"), { scope: "row", textContent: row.measure }));
    for (const key of keys) line.insertCell().textContent = figure(row[key]);
    if (!explained || !row.explain) continue;
    const explain = body.insertRow();
    explain.className = "explain";
    Object.assign(explain.insertCell(), { colSpan: 4, textContent: row.explain });
  }
  table.replaceChildren(head.parentElement, body);
}
