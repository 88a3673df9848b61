// Heatmap of one map, with words on both axes and a number for every cell.
const sheet = { shown: null, at: null };  // the current map, and the cell under the cursor
const FONT = "system-ui, 'Segoe UI', Roboto, 'Liberation Sans', Arial, sans-serif";

function plan(shown, width, zoom) {
  const { rows, columns } = shown;
  const context = document.createElement("canvas").getContext("2d");
  context.font = `11px ${FONT}`;
  const widest = (names, most) => Math.min(most, Math.max(...names.map((n) => context.measureText(n).width)) + 8);
  const narrow = width < 480;
  const left = Math.ceil(widest(shown.rowNames, narrow ? 76 : 130));
  const top = Math.ceil(widest(shown.columnNames, narrow ? 76 : 110));
  const cell = Math.min(26, (width - left - 2) / columns) * zoom;
  const tall = rows * 2 < columns ? Math.max(18, Math.min(cell, 40)) : columns * 2 < rows ? Math.min(cell, 18) : cell;
  return { left, top, cell, tall, width: Math.ceil(left + cell * columns + 1), height: Math.ceil(top + tall * rows + 1) };
}

function drawMap(canvas, shown, layout, scale) {
  const { rows, columns, values, peak } = shown;
  const { left, top, cell, tall, width, height } = layout;
  const color = colors();
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  context.fillStyle = color.paper;
  context.fillRect(0, 0, width, height);
  const small = document.createElement("canvas");
  small.width = columns;
  small.height = rows;
  const table = shown.signed ? divergingRamp() : ramp();
  small.getContext("2d").putImageData(paint(values, columns, rows, peak, table, shown.signed), 0, 0);
  context.imageSmoothingEnabled = false;
  context.drawImage(small, left, top, cell * columns, tall * rows);
  context.strokeStyle = color.rule;
  context.strokeRect(left - 0.5, top - 0.5, cell * columns + 1, tall * rows + 1);
  context.font = `11px ${FONT}`;
  context.fillStyle = color.ink;
  context.textBaseline = "middle";
  context.textAlign = "right";
  const everyRow = Math.ceil(10.5 / tall);
  for (let r = 0; r < rows; r += everyRow) {
    context.fillText(fitted(context, shown.rowNames[r], left - 8), left - 5, top + tall * (r + 0.5));
  }
  context.textAlign = "left";
  const everyColumn = Math.ceil(10.5 / cell);
  for (let c = 0; c < columns; c += everyColumn) {
    context.save();
    context.translate(left + cell * (c + 0.5), top - 5);
    context.rotate(-Math.PI / 2);
    context.fillText(fitted(context, shown.columnNames[c], top - 8), 0, 0);
    context.restore();
  }
}
function fitted(context, text, room) {
  let kept = shorten(text, 24);
  while (kept.length > 2 && context.measureText(kept).width > room) kept = shorten(kept, [...kept].length - 1);
  return kept;
}

// Phones refuse canvases of more than about 16 million pixels.
const sharpness = ({ width, height }) => Math.min(devicePixelRatio, Math.sqrt(1.6e7 / (width * height)));

async function showMap(state) {
  const { layer, mode, head, zoom, view } = state;
  const request = (sheet.request = {});
  const shown = await currentMap(state);
  if (sheet.request !== request) return;  // another head was selected meanwhile
  Object.assign(shown, { layer, mode, head, zoom });
  sheet.shown = shown;
  for (const name of ["frame", "lines", "distance"]) $(name).hidden = name !== ({ map: "frame" }[view] || view);
  if ($("image")) $("image").hidden = view !== "image";
  $("lines-say").hidden = view !== "lines";
  for (const id of ["readout", "zoom"]) $(id).hidden = view !== "map";
  if (view === "lines") showLines(shown);
  if (view === "distance") await showDistance(state);
  if (view === "image") await showImage(shown);
  if (view === "map") {
    const layout = (sheet.layout = plan(shown, $("frame").clientWidth || 600, zoom));
    drawMap($("heatmap"), shown, layout, sharpness(layout));
    const at = sheet.at;
    readCell(at && at.layer === layer && at.row < shown.rows && at.column < shown.columns ? at : null);
  }
  $("range").textContent = shown.signed && !shown.peak ? "No difference." : `${shown.signed ? `−${number(shown.peak)} (second run higher) to ` : "0 to "}${number(shown.peak)}. ` +
    `Stored in 256 steps of ${number(shown.step)}: a number is exact to half a step per token.`;
  const stops = shown.signed ? SIDES : STOPS;
  document.querySelector(".ramp").style.background =
    `linear-gradient(to right, ${stops[isDark() ? "dark" : "light"].map(css).join(", ")})`;
  showHeadFaithfulness(state);
  $("heatmap").dataset.shown = `${layer}/${mode}/${head}/${zoom}`;
  $("large").dataset.shown = [layer, mode, head, view, state.unit, Number(state.special), Number(state.norm), Number(state.diff),
    (state.heads || []).join("."), (state.spans || []).join(".")].join("/");
}

function cellAt(event) {
  const { left, top, cell, tall } = sheet.layout;
  const box = $("heatmap").getBoundingClientRect();
  const column = Math.floor((event.clientX - box.left - left) / cell);
  const row = Math.floor((event.clientY - box.top - top) / tall);
  const { rows, columns, layer } = sheet.shown;
  return row >= 0 && column >= 0 && row < rows && column < columns ? { row, column, layer } : null;
}
function readCell(at) {
  sheet.at = at;
  const out = $("readout");
  $("cursor").hidden = !at;
  if (!at) {
    out.textContent = "Point at a cell, or focus the heatmap with Tab and use the arrow keys.";
    delete out.dataset.value;
    return;
  }
  const { left, top, cell, tall } = sheet.layout;
  const { values, columns, step, rowNames, columnNames } = sheet.shown;
  const value = values[at.row * columns + at.column];
  const strong = document.createElement("b");
  strong.textContent = number(value);
  const error = sheet.shown.error(at.row, at.column);
  out.replaceChildren(`“${rowNames[at.row]}” → “${columnNames[at.column]}”  `, strong, `  ± ${number(error)}`);
  out.dataset.error = error;
  Object.assign(out.dataset, { value, step, row: at.row, column: at.column });
  Object.assign($("cursor").style, { left: `${left + cell * at.column}px`, top: `${top + tall * at.row}px`,
    width: `${cell}px`, height: `${tall}px` });
}
function watchHeatmap() {
  const canvas = $("heatmap");
  const point = (event) => { if (sheet.shown) readCell(cellAt(event)); };
  canvas.addEventListener("pointermove", point);
  canvas.addEventListener("pointerdown", point);
  canvas.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!move || !sheet.shown) return;
    event.preventDefault();
    const { rows, columns, layer } = sheet.shown;
    const at = sheet.at || { row: 0, column: 0 };
    const inside = (value, size) => Math.max(0, Math.min(size - 1, value));
    readCell(sheet.at ? { row: inside(at.row + move[0], rows), column: inside(at.column + move[1], columns), layer }
      : { row: 0, column: 0, layer });
    $("cursor").scrollIntoView({ block: "nearest", inline: "nearest" });
  });
}
