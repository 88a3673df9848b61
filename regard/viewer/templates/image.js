// Attention to a picture: the weights of one word over the grid of its cells, with a slider through the words.
const gridOf = (site) => {
  const axis = (ownerOf(site).axes || {})[look.maps[site].columns];
  return axis && !Array.isArray(axis) && axis.grid ? axis : null;
};
async function showImage(shown) {
  const axis = gridOf(state.site), slider = $("caption-at");
  slider.max = shown.rows - 1;
  const row = Math.min(state.row ?? 0, shown.rows - 1);
  slider.value = row;
  const [tall, wide] = axis.grid;
  const values = shown.values.subarray(row * shown.columns, (row + 1) * shown.columns);
  $("caption").replaceChildren(...shown.rowNames.map((name, r) =>
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
  sheet.image = { values, tall, wide, row, name: shown.rowNames[row], error: shown.error(row, 0) };
  $("image").dataset.row = row;
  readPlace(null);
}
function readPlace(event) {
  const out = $("image-say"), { values, tall, wide, name, error } = sheet.image;
  let cell = null;
  if (event) {
    const box = $("over").getBoundingClientRect();
    const c = Math.floor(((event.clientX - box.left) / box.width) * wide), r = Math.floor(((event.clientY - box.top) / box.height) * tall);
    if (r >= 0 && c >= 0 && r < tall && c < wide) cell = r * wide + c;
  }
  if (cell === null) {
    out.textContent = `“${name}”: brightest where it looks. Move the slider through the words; point at the picture for numbers.`;
    delete out.dataset.value;
    return;
  }
  out.textContent = `“${name}” → row ${Math.floor(cell / wide) + 1}, column ${(cell % wide) + 1}  ${number(values[cell])}  ± ${number(error)}`;
  Object.assign(out.dataset, { value: values[cell], cell });
}
function watchImage() {
  $("caption-at").addEventListener("input", (event) => change({ row: Number(event.target.value) }));
  $("over").addEventListener("pointermove", (event) => { if (sheet.image) readPlace(event); });
  $("over").addEventListener("pointerdown", (event) => { if (sheet.image) readPlace(event); });
}
