// Attention to a picture: the weights of one word over the grid of its cells, with a slider through the words; or those of
// one of its places, which is chosen by pointing at it.
const gridOf = (site) => {
  const axis = (ownerOf(site).axes || {})[look.maps[site].columns];
  return axis && !Array.isArray(axis) && axis.grid ? axis : null;
};
async function showImage(shown) {
  const axis = gridOf(state.site), slider = $("caption-at"), own = cells && looks(state.site);
  slider.max = shown.rows - 1;
  const row = Math.min(state.row ?? (own ? strongestPlace() : 0), shown.rows - 1);
  slider.value = row;
  const [tall, wide] = axis.grid;
  const values = shown.values.subarray(row * shown.columns, (row + 1) * shown.columns);
  const named = own ? [] : shown.rowNames;  // hundreds of places are no caption
  $("caption").replaceChildren(...named.map((name, r) =>
    Object.assign(document.createElement("span"), { textContent: name, className: r === row ? "now" : "" })).flatMap((s) => [s, " "]));
  const picture = new Image();
  if (axis.picture) {
    picture.src = axis.picture;
    await picture.decode();
  }
  const across = Math.min(480, $("image").clientWidth || 480);
  const canvas = $("over");
  const down = Math.round(axis.picture ? (across * picture.naturalHeight) / picture.naturalWidth : (across * tall) / wide);
  const sharp = Math.min(2, devicePixelRatio);
  canvas.width = across * sharp;
  canvas.height = down * sharp;
  canvas.style.width = `${across}px`;
  const context = canvas.getContext("2d");
  if (axis.picture) context.drawImage(picture, 0, 0, canvas.width, canvas.height);
  const small = document.createElement("canvas");
  small.width = wide;
  small.height = tall;
  const shade = new ImageData(wide, tall), peak = peakOf(values) || 1;
  for (let i = 0; i < tall * wide; i++) {  // dark where nothing is regarded, as in Xu et al. 2015
    const t = Math.abs(values[i]) / peak;
    shade.data.set(axis.picture ? [0, 0, 0, Math.round(200 * (1 - t))] : [226, 122, 20, Math.round(255 * t)], 4 * i);
  }
  small.getContext("2d").putImageData(shade, 0, 0);
  context.imageSmoothingEnabled = Boolean(axis.picture);
  context.drawImage(small, 0, 0, canvas.width, canvas.height);
  if (own) outline(context, canvas, row, tall, wide);
  sheet.image = { values, tall, wide, row, own, name: own ? placeName(row) : shown.rowNames[row], error: shown.error(row, 0) };
  $("image").dataset.row = row;
  readPlace(null);
}
const strongestPlace = () => (look.weights ? look.weights.indexOf(peakOf(look.weights)) : 0);
function outline(context, canvas, row, tall, wide) {  // the place that looks, seen on light and on dark
  const w = canvas.width / wide, h = canvas.height / tall;
  for (const [colour, line] of [["#000", 5], ["#fff", 2]]) {
    Object.assign(context, { strokeStyle: colour, lineWidth: line });
    context.strokeRect((row % wide) * w, Math.floor(row / wide) * h, w, h);
  }
}
function overCell(event) {
  const { tall, wide } = sheet.image, box = $("over").getBoundingClientRect();
  const c = Math.floor(((event.clientX - box.left) / box.width) * wide), r = Math.floor(((event.clientY - box.top) / box.height) * tall);
  return r >= 0 && c >= 0 && r < tall && c < wide ? r * wide + c : null;
}
function readPlace(event) {
  const out = $("image-say"), { values, wide, name, own, error } = sheet.image;
  const cell = event ? overCell(event) : null;
  if (cell === null) {
    out.textContent = own ? `${name}, outlined, looks where it is brightest. Click another place, or move the slider; point for numbers.`
      : `“${name}”: brightest where it looks. Move the slider through the words; point at the picture for numbers.`;
    delete out.dataset.value;
    return;
  }
  out.textContent = `“${name}” → row ${Math.floor(cell / wide) + 1}, column ${(cell % wide) + 1}  ${number(values[cell])}  ± ${number(error)}`;
  Object.assign(out.dataset, { value: values[cell], cell });
}
function watchImage() {
  $("caption-at").addEventListener("input", (event) => change({ row: Number(event.target.value) }));
  $("over").addEventListener("pointermove", (event) => { if (sheet.image) readPlace(event); });
  $("over").addEventListener("pointerdown", (event) => {
    if (!sheet.image) return;
    readPlace(event);
    const cell = overCell(event);
    if (sheet.image.own && cell !== null) change({ row: cell });
  });
}
