// Attention to an image: weights of one word over its grid cells, with a slider through the words; or of one of its cells.
const gridOf = (layer) => {
  const axis = (ownerOf(layer).axes || {})[look.maps[layer].columns];
  return axis && !Array.isArray(axis) && axis.grid ? axis : null;
};
async function showImage(shown) {
  const axis = gridOf(state.layer), slider = $("caption-at"), own = imageAxis && looks(state.layer);
  slider.max = shown.rows - 1;
  const row = Math.min(state.row ?? (own ? topCell() : 0), shown.rows - 1);
  slider.value = row;
  const [tall, wide] = axis.grid;
  const values = shown.values.subarray(row * shown.columns, (row + 1) * shown.columns);
  const named = own ? [] : shown.rowNames;  // hundreds of cells are no caption
  $("caption").replaceChildren(...named.map((name, r) =>
    Object.assign(document.createElement("span"), { textContent: name, className: r === row ? "now" : "" })).flatMap((s) => [s, " "]));
  const image = new Image();
  if (axis.image) {
    image.src = axis.image;
    await image.decode();
  }
  const across = Math.min(480, $("image").clientWidth || 480);
  const canvas = $("over");
  const down = Math.round(axis.image ? (across * image.naturalHeight) / image.naturalWidth : (across * tall) / wide);
  const sharp = Math.min(2, devicePixelRatio);
  canvas.width = across * sharp;
  canvas.height = down * sharp;
  canvas.style.width = `${across}px`;
  const context = canvas.getContext("2d");
  if (axis.image) context.drawImage(image, 0, 0, canvas.width, canvas.height);
  const small = document.createElement("canvas");
  small.width = wide;
  small.height = tall;
  const shade = new ImageData(wide, tall), peak = peakOf(values) || 1;
  for (let i = 0; i < tall * wide; i++) {  // dark means no attention, as in Xu et al. 2015
    const t = Math.abs(values[i]) / peak;
    shade.data.set(axis.image ? [0, 0, 0, Math.round(200 * (1 - t))] : [226, 122, 20, Math.round(255 * t)], 4 * i);
  }
  small.getContext("2d").putImageData(shade, 0, 0);
  context.imageSmoothingEnabled = Boolean(axis.image);
  context.drawImage(small, 0, 0, canvas.width, canvas.height);
  if (own) outline(context, canvas, row, tall, wide);
  sheet.image = { values, tall, wide, row, own, name: own ? cellName(row) : shown.rowNames[row], error: shown.error(row, 0) };
  $("image").dataset.row = row;
  readImageCell(null);
}
const topCell = () => (look.weights ? look.weights.indexOf(peakOf(look.weights)) : 0);
function outline(context, canvas, row, tall, wide) {  // the query cell, visible on light and dark
  const w = canvas.width / wide, h = canvas.height / tall;
  for (const [color, line] of [["#000", 5], ["#fff", 2]]) {
    Object.assign(context, { strokeStyle: color, lineWidth: line });
    context.strokeRect((row % wide) * w, Math.floor(row / wide) * h, w, h);
  }
}
function overCell(event) {
  const { tall, wide } = sheet.image, box = $("over").getBoundingClientRect();
  const c = Math.floor(((event.clientX - box.left) / box.width) * wide), r = Math.floor(((event.clientY - box.top) / box.height) * tall);
  return r >= 0 && c >= 0 && r < tall && c < wide ? r * wide + c : null;
}
function readImageCell(event) {
  const out = $("image-say"), { values, wide, name, own, error } = sheet.image;
  const cell = event ? overCell(event) : null;
  if (cell === null) {
    out.textContent = own ? `${name}, outlined, attends to the bright cells. Click another cell, or move the slider; point for numbers.`
      : `“${name}” attends to the bright cells. Move the slider through the words; point at the image for numbers.`;
    delete out.dataset.value;
    return;
  }
  out.textContent = `“${name}” → row ${Math.floor(cell / wide) + 1}, column ${(cell % wide) + 1}  ${number(values[cell])}  ± ${number(error)}`;
  Object.assign(out.dataset, { value: values[cell], cell });
}
function watchImage() {
  $("caption-at").addEventListener("input", (event) => change({ row: Number(event.target.value) }));
  $("over").addEventListener("pointermove", (event) => { if (sheet.image) readImageCell(event); });
  $("over").addEventListener("pointerdown", (event) => {
    if (!sheet.image) return;
    readImageCell(event);
    const cell = overCell(event);
    if (sheet.image.own && cell !== null) change({ row: cell });
  });
}
