// One map as lines between words: queries on the left, keys on the right.
const MAX_LINES = 800;
const NS = "http://www.w3.org/2000/svg";
function element(name, attributes, text) {
  const made = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}
function drawLines(shown, chosen) {
  const { rows, columns, values, peak } = shown;
  const most = Math.max(rows, columns);
  const gap = most > 160 ? 7 : most > 60 ? 12 : 20;
  const size = Math.min(13, gap - 1);
  const wide = Math.min(640, Math.max(300, $("lines").clientWidth || 600));
  const edge = Math.round(wide * 0.3), height = gap * most + 16;
  const svg = element("svg", { width: wide, height, viewBox: `0 0 ${wide} ${height}`, "font-size": size, role: "img",
    "aria-label": "lines from queries to the keys they attend to", "font-family": FONT });
  const color = colors();
  const [warm, cold] = isDark() ? ["#f0a04b", "#7fb2f0"] : ["#c05f00", "#1f5fae"];
  const at = (i, count) => 8 + gap * (i + 0.5) + (gap * (most - count)) / 2;
  const order = Array.from(values.keys()).filter((i) => values[i] !== 0)
    .sort((a, b) => Math.abs(values[b]) - Math.abs(values[a])).slice(0, MAX_LINES);
  const lines = element("g", { "stroke-width": chosen === null && order.length > 400 ? 1 : Math.min(3, gap / 5) });
  for (const i of order) {
    const r = Math.floor(i / columns), c = i % columns;
    if (chosen !== null && chosen !== r) continue;
    lines.append(element("line", { x1: edge, y1: at(r, rows), x2: wide - edge, y2: at(c, columns), "data-row": r, "data-column": c,
      "data-value": values[i], "data-tip": `${shown.rowNames[r]} → ${shown.columnNames[c]}  ${number(values[i])} ± ${number(shown.error(r, c))}`, stroke: values[i] < 0 ? cold : warm, "stroke-opacity": Math.min(1, Math.abs(values[i]) / peak).toFixed(4) }));
  }
  svg.append(lines);
  const label = (name, x, y, anchor, more) => element("text", { x, y: y + size * 0.35, "text-anchor": anchor, fill: color.ink, ...more }, shorten(name, 26));
  shown.rowNames.forEach((name, r) => {
    const word = label(name, edge - 7, at(r, rows), "end", { "data-row": r, class: "looks", tabindex: r === (chosen ?? 0) ? 0 : -1 });
    if (chosen === r) word.setAttribute("font-weight", 700);
    svg.append(word);
  });
  shown.columnNames.forEach((name, c) => {
    const value = chosen === null ? null : values[chosen * columns + c];
    const strong = value !== null && Math.abs(value) >= 0.005;
    svg.append(label(strong ? `${shorten(name, 18)} ${value.toFixed(2)}` : name, wide - edge + 7, at(c, columns), "start",
      { "data-column": c, ...(value !== null && { "data-value": value }), ...(value !== null && !strong && { fill: color.soft }) }));
  });
  return svg;
}
function showLines(shown) {
  const box = $("lines");
  const chosen = state.row !== null && state.row < shown.rows ? state.row : null;
  box.replaceChildren(drawLines(shown, chosen));
  const cut = shown.values.length > MAX_LINES ? ` Only the strongest ${MAX_LINES} lines are drawn.` : "";
  $("lines-say").textContent = (chosen === null ? "Select a word on the left to see only its lines, with their weights." :
    `Only “${shown.rowNames[chosen]}”; select it again for all.`) + cut;
}
function watchLines() {
  const pick = (target) => {
    const word = target.closest?.("text.looks");
    if (!word) return false;
    const row = Number(word.dataset.row);
    change({ row: state.row === row ? null : row });
    return true;
  };
  $("lines").addEventListener("click", (event) => pick(event.target));
  $("lines").addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Enter" && pick(event.target)) return;
    if (!step || !event.target.closest?.("text.looks")) return;
    event.preventDefault();
    const row = Math.max(0, Math.min(sheet.shown.rows - 1, Number(event.target.dataset.row) + step));
    change({ row });
    sheet.done.then(() => $("lines").querySelector(`text.looks[data-row="${row}"]`)?.focus());
  });
}
