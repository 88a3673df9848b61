// How far the heads of one layer attend: the fraction of attention at each distance; in an image the Euclidean distance.
const within = (layer) => look.maps[layer].rows === look.maps[layer].columns && look.maps[layer].shape[1] === look.maps[layer].shape[2];
async function distanceFractions(layer) {
  const [heads, rows, columns] = look.maps[layer].shape;
  const levels = await bytes(layer), step = stepOf(layer), wide = gridOf(layer)?.grid[1];
  const far = (r, c) => (wide ? Math.round(Math.hypot(Math.floor(c / wide) - Math.floor(r / wide), (c % wide) - (r % wide))) : c - r);
  return Array.from({ length: heads }, (_, h) => {
    const share = new Float64Array(rows + columns - 1);
    for (let r = 0, i = h * rows * columns; r < rows; r++) {
      for (let c = 0; c < columns; c++, i++) share[far(r, c) + rows - 1] += (levels[i] * step) / rows;
    }
    let mean = 0;
    share.forEach((s, d) => { mean += s * Math.abs(d - rows + 1); });
    return { share, mean };
  });
}
async function showDistance({ layer, mode, head, heads }) {
  const box = $("distance");
  if (!within(layer)) {
    box.replaceChildren("Rows and columns of this map are different sequences, so they have no distance.");
    return;
  }
  const [, rows] = look.maps[layer].shape;
  const found = await distanceFractions(layer);
  const chosen = mode === "single" ? [head] : heads && heads.length ? heads : found.map((_, h) => h);
  // The range that contains nearly all attention.
  let reach = 2;
  for (let d = rows - 1; d > 2; d--) {
    if (found.some(({ share }) => share[rows - 1 - d] > 0.004 || share[rows - 1 + d] > 0.004)) { reach = d; break; }
  }
  reach = Math.min(reach, rows - 1);
  const from = gridOf(layer) ? 0 : -reach;  // an image has no before and after
  const wide = Math.min(640, Math.max(300, box.clientWidth || 600)), height = 260, left = 44, low = 28;
  let peak = 0;
  for (const { share } of found) for (let d = from; d <= reach; d++) peak = Math.max(peak, share[d + rows - 1]);
  const x = (d) => left + ((d - from) / (reach - from || 1)) * (wide - left - 12);
  const y = (s) => 10 + (1 - s / (peak || 1)) * (height - low - 10);
  const color = colors(), deep = isDark() ? "#f0a04b" : "#a14f00";
  const svg = element("svg", { width: wide, height, viewBox: `0 0 ${wide} ${height}`, "font-size": 11, "font-family": FONT, role: "img",
    "aria-label": "fraction of the attention at each distance" });
  svg.append(element("line", { x1: x(0), x2: x(0), y1: 10, y2: height - low, stroke: color.rule }));
  for (const s of [0, peak / 2, peak]) {
    svg.append(element("line", { x1: left, x2: wide - 12, y1: y(s), y2: y(s), stroke: color.rule }));
    svg.append(element("text", { x: left - 6, y: y(s) + 4, "text-anchor": "end", fill: color.soft }, s.toPrecision(2)));
  }
  for (const d of [...new Set([-reach, -Math.round(reach / 2), 0, Math.round(reach / 2), reach])].filter((d) => d >= from)) {
    svg.append(element("text", { x: x(d), y: height - 10, "text-anchor": "middle", fill: color.soft }, d > 0 ? `+${d}` : d));
  }
  found.forEach(({ share }, h) => {
    const points = Array.from({ length: reach - from + 1 }, (_, i) => `${x(i + from).toFixed(1)},${y(share[i + from + rows - 1]).toFixed(1)}`);
    const mine = chosen.includes(h);
    svg.append(element("polyline", { points: points.join(" "), fill: "none", stroke: mine ? deep : color.soft,
      "stroke-width": mine ? 2 : 1, "stroke-opacity": mine ? 1 : 0.35, "data-head": h }));
    if (!mine || chosen.length > 1) return;
    for (let d = from; d <= reach; d++) {
      svg.append(element("circle", { cx: x(d), cy: y(share[d + rows - 1]), r: reach > 60 ? 1.5 : 3, fill: deep, "data-distance": d,
        "data-fraction": share[d + rows - 1], "data-tip": `${d > 0 ? "+" : ""}${d}  ${number(share[d + rows - 1])}` }));
    }
  });
  const table = document.createElement("table");
  const head1 = table.createTHead().insertRow();
  for (const name of ["head", "mean distance"]) head1.append(Object.assign(document.createElement("th"), { textContent: name }));
  const body = table.createTBody();
  found.forEach(({ mean }, h) => {
    const row = body.insertRow();
    row.dataset.head = h;
    row.dataset.mean = mean;
    row.insertCell().textContent = h;
    row.insertCell().textContent = mean.toFixed(2);
    if (chosen.includes(h)) row.className = "chosen";
  });
  const say = Object.assign(document.createElement("p"), { className: "soft",
    textContent: from === 0 ? "Fraction of the attention at each distance from the query, in cells."
      : "Fraction of the attention at each distance in tokens: keys before the query on the left, after it on the right." });
  box.replaceChildren(say, svg, table);
}
