// Export to files.
function save(name, type, content) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
const stem = () => (look.title || "look").toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 40) || "look";
const cell = (value) => {
  const text = value === null || value === undefined ? "" : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};
const csv = (rows) => rows.map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
const sentenceOf = (index) => {
  const at = look.sentences.findIndex(([first, end]) => first <= index && index < end);
  return at < 0 ? null : at;
};
const weightOf = (list, index) => (list ? list[index] : null);
const weightsNow = () => (state.by ? look.other_attributions[state.by] : selectedTarget === null ? look.weights : look.targets[selectedTarget].weights);

function tokensCsv() {
  const head = ["token", "text", "start", "end", "word", "sentence", "special", "weight"];
  return csv([head, ...look.tokens.map((t, i) =>
    [i, t.text, t.start, t.end, t.word, sentenceOf(i), t.special, weightOf(weightsNow(), i)])]);
}
function weightsJson() {
  const { title, model, run, text, prediction, weights_description, evidence, evidence_fraction, evidence_recall, faithfulness } = look;
  const shown = sheet.shown;
  return JSON.stringify({
    title, model, run, text, offsets: "characters (Unicode code points)", prediction, weights_description,
    tokens: look.tokens.map((t, i) => ({ ...t, weight: weightOf(look.weights, i) })),
    words: look.words,
    sentences: look.sentences.map(([first, end], i) => ({ first, end, weight: weightOf(look.sentence_weights, i) })),
    evidence, evidence_fraction, evidence_recall, faithfulness, targets: look.targets, interventions: look.interventions, heads: look.heads,
    map: shown && { layer: look.maps[shown.layer].layer, mode: shown.mode, head: shown.mode === "single" ? shown.head : null,
      heads: shown.mode === "single" ? null : state.heads, difference: Boolean(shown.signed), step: shown.step, rows: shown.rowNames, columns: shown.columnNames, weights: grid(shown) },
  }, null, 1);
}
const grid = ({ rows, columns, values }) => Array.from({ length: rows }, (_, r) =>
  Array.from(values.subarray(r * columns, (r + 1) * columns), (v) => Number(v.toPrecision(6))));
function mapCsv() {
  const { rowNames, columnNames } = sheet.shown;
  return csv([["", ...columnNames], ...grid(sheet.shown).map((row, r) => [rowNames[r], ...row])]);
}

// Distance view: one line per distance, one column per head.
async function distanceCsv() {
  if (!within(state.layer)) return mapCsv();
  const found = await distanceFractions(state.layer), middle = look.maps[state.layer].shape[1] - 1;
  const rows = Array.from(found[0].share, (_, d) => [d - middle, ...found.map(({ share }) => Number(share[d].toPrecision(6)))]);
  return csv([["distance", ...found.map((_, h) => `head ${h}`)], ...(gridOf(state.layer) ? rows.slice(middle) : rows)]);
}
// XML does not allow control characters, even escaped.
const xml = (text) => text.replace(/[^\t\n\r\u0020-\uD7FF\uE000-\uFFFD\u{10000}-\u{10FFFF}]/gu, "\uFFFD")
  .replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
// The browser does the text layout, including right-to-left scripts; the SVG copies the positions.
const WIDE = 760, PAD = 24;
function drawing(what) {
  const prose = document.querySelector(what).cloneNode(true);
  prose.classList.add("for-drawing");
  prose.style.width = `${WIDE - 2 * PAD}px`;
  document.body.append(prose);
  const origin = prose.getBoundingClientRect();
  const place = (box) => ({ x: box.left - origin.left + PAD, y: box.top - origin.top + PAD, w: box.width, h: box.height });
  const boxes = (element) => [...element.getClientRects()].map(place);
  const f = (value) => value.toFixed(2);
  const parts = [];
  for (const word of prose.querySelectorAll(".word")) {
    const kind = prose.classList.contains("by-sentence") && word.style.getPropertyValue("--s") ? "--s" : "--a";
    const shade = 0.82 * parseFloat(word.style.getPropertyValue(kind));
    for (const { x, y, w, h } of boxes(word)) {
      parts.push(`<rect x="${f(x)}" y="${f(y)}" width="${f(w)}" height="${f(h)}" rx="2" fill="#e88016" fill-opacity="${shade.toFixed(4)}"/>`);
    }
  }
  for (const bar of prose.querySelectorAll(".bar")) {
    for (const { x, y, w, h } of boxes(bar)) {
      parts.push(`<rect x="${f(x)}" y="${f(y)}" width="${f(w)}" height="${f(h)}" fill="#e88016"/>`);
    }
  }
  for (const line of prose.querySelectorAll("u.evidence")) {
    for (const { x, y, w, h } of boxes(line)) {
      parts.push(`<path d="M${f(x)} ${f(y + h)}h${f(w)}" stroke="#1e1c19" stroke-width="2"/>`);
    }
  }
  parts.push(...runs(prose, place, f));
  const height = Math.ceil(origin.height + 2 * PAD);
  const font = getComputedStyle(prose).fontFamily;
  prose.remove();
  return `<?xml version="1.0" encoding="UTF-8"?>\n<svg xmlns="http://www.w3.org/2000/svg" width="${WIDE}" height="${height}" ` +
    `viewBox="0 0 ${WIDE} ${height}" font-family="${xml(font)}" fill="#1e1c19">\n<title>${xml(look.title)}</title>\n` +
    `<rect width="100%" height="100%" fill="#ffffff"/>\n${parts.join("\n")}\n</svg>\n`;
}
// One <text> per word, with a fixed width so that other fonts do not change the layout.
function* runs(prose, place, f) {
  const context = document.createElement("canvas").getContext("2d");
  const walker = document.createTreeWalker(prose, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const style = getComputedStyle(node.parentElement);
    context.font = `${style.fontSize} ${style.fontFamily}`;
    const { fontBoundingBoxAscent: up, fontBoundingBoxDescent: down } = context.measureText("x");
    const small = node.parentElement.matches(".figure, figcaption") ? ' fill="#67625a"' : "";
    const turned = style.direction === "rtl" ? ' direction="rtl" text-anchor="end"' : "";
    for (const { text, box } of fragments(node)) {
      const { x, y, w, h } = place(box);
      yield `<text x="${f(x)}" y="${f(y + (h * up) / (up + down))}" font-size="${parseFloat(style.fontSize)}" textLength="${f(w)}" ` +
        `lengthAdjust="spacingAndGlyphs"${small}${turned}>${xml(text)}</text>`;
    }
  }
}

// Words, split at line ends and changes of direction.
function* fragments(node) {
  const range = document.createRange();
  const rects = (from, to) => { range.setStart(node, from); range.setEnd(node, to); return range.getClientRects(); };
  for (const { 0: text, index } of node.data.matchAll(/\S+/gu)) {
    const whole = rects(index, index + text.length);
    if (whole.length <= 1) {
      yield { text, box: whole[0] || range.getBoundingClientRect() };
      continue;
    }
    let kept = null, at = index;
    for (const letter of text) {
      const box = rects(at, (at += letter.length))[0] || range.getBoundingClientRect();
      const part = [...whole].findIndex((r) => Math.abs(r.top - box.top) < 1 && box.left > r.left - 0.5 && box.right < r.right + 0.5);
      if (kept && kept.part === part) kept.text += letter;
      else {
        if (kept) yield kept;
        kept = { text: letter, part, box: whole[part] || box };
      }
    }
    yield kept;
  }
}

// Rasterize the SVG from a data URI: a sandboxed frame may not read its own blobs.
const paintedDrawing = (what) => painted(drawing(what));
async function painted(drawn) {
  const picture = new Image();
  picture.src = `data:image/svg+xml,${encodeURIComponent(drawn)}`;
  await picture.decode();
  const canvas = document.createElement("canvas");
  const scale = Math.min(2, Math.sqrt(1.6e7 / (picture.width * picture.height)));
  canvas.width = Math.round(picture.width * scale);
  canvas.height = Math.round(picture.height * scale);
  canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}
const savePainted = async (name, what) => save(name, "image/png", await paintedDrawing(what));

// The current view as SVG; a heatmap is embedded as an image.
async function largeDrawing() {
  printing = true;  // exports use the light colors
  let made;
  if (state.view === "map") {
    const canvas = document.createElement("canvas");
    const layout = plan(sheet.shown, 1000, sheet.shown.zoom);
    made = element("svg", { width: layout.width, height: layout.height, viewBox: `0 0 ${layout.width} ${layout.height}`, "font-size": 11, "font-family": FONT });
    made.append(element("rect", { width: "100%", height: "100%", fill: "#ffffff" }));
    const { left, top, cell, tall } = layout, { rows, columns, values, peak, rowNames, columnNames, signed } = sheet.shown;
    canvas.width = columns;
    canvas.height = rows;
    canvas.getContext("2d").putImageData(paint(values, columns, rows, peak, signed ? divergingRamp() : ramp(), signed), 0, 0);
    made.append(element("image", { x: left, y: top, width: cell * columns, height: tall * rows, href: canvas.toDataURL("image/png"),
      preserveAspectRatio: "none", style: "image-rendering:pixelated" }));
    for (let r = 0; r < rows; r += Math.ceil(10.5 / tall)) {
      made.append(element("text", { x: left - 5, y: top + tall * (r + 0.5) + 4, "text-anchor": "end" }, shorten(rowNames[r], 22)));
    }
    for (let c = 0; c < columns; c += Math.ceil(10.5 / cell)) {
      made.append(element("text", { transform: `translate(${left + cell * (c + 0.5) + 4} ${top - 5}) rotate(-90)` }, shorten(columnNames[c], 18)));
    }
  } else if (state.view === "lines") made = drawLines(sheet.shown, state.row);
  else if (state.view === "image") {
    const canvas = $("over"), [width, height] = [parseFloat(canvas.style.width), (parseFloat(canvas.style.width) * canvas.height) / canvas.width];
    made = element("svg", { width, height, viewBox: `0 0 ${width} ${height}` });
    made.append(element("image", { width, height, href: canvas.toDataURL("image/png") }));
  } else {
    await showDistance(state);
    made = $("distance").querySelector("svg")?.cloneNode(true);
  }
  printing = false;
  if (state.view === "distance") await showDistance(state);
  if (made && state.view !== "map") made.prepend(element("rect", { width: "100%", height: "100%", fill: "#ffffff" }));
  made?.setAttribute("xmlns", NS);
  return made && `<?xml version="1.0" encoding="UTF-8"?>\n${new XMLSerializer().serializeToString(made)}\n`;
}

function wireExports() {
  const text = "#text .prose", hops = "#hops .hop-grid";
  $("save-svg")?.addEventListener("click", () => save(`${stem()}.svg`, "image/svg+xml", drawing(text)));
  $("save-text-png")?.addEventListener("click", () => savePainted(`${stem()}.png`, text));
  $("save-hops-svg")?.addEventListener("click", () => save(`${stem()}-hops.svg`, "image/svg+xml", drawing(hops)));
  $("save-hops-png")?.addEventListener("click", () => savePainted(`${stem()}-hops.png`, hops));
  $("save-csv").addEventListener("click", () => save(`${stem()}.csv`, "text/csv", tokensCsv()));
  $("save-json").addEventListener("click", () => save(`${stem()}.json`, "application/json", weightsJson()));
  $("save-png")?.addEventListener("click", async () => {
    if (!sheet.shown) return;
    if (state.view !== "map") {
      const made = await largeDrawing();
      if (made) save(`${stem()}-${state.view}.png`, "image/png", await painted(made));
      return;
    }
    const canvas = document.createElement("canvas");
    const layout = plan(sheet.shown, 1000, sheet.shown.zoom);
    printing = true;  // exports use the light colors
    drawMap(canvas, sheet.shown, layout, Math.min(2, Math.sqrt(1.6e7 / (layout.width * layout.height))));
    printing = false;
    canvas.toBlob((blob) => save(`${stem()}-map.png`, "image/png", blob), "image/png");
  });
  $("save-large")?.addEventListener("click", async () => {
    const made = sheet.shown && (await largeDrawing());
    if (made) save(`${stem()}-${state.view}.svg`, "image/svg+xml", made);
  });
  $("save-map")?.addEventListener("click", async () => {
    if (sheet.shown) save(`${stem()}-${state.view === "distance" ? "distance" : "map"}.csv`, "text/csv", state.view === "distance" ? await distanceCsv() : mapCsv());
  });
}
