// A map is laid over the picture: where no attention fell it is dark, where most fell it is warm.
const told = JSON.parse(document.getElementById("data").textContent);
const DARK = 0.72, WARM = 0.4, HUE = [255, 150, 20];

function even(one) {
  const mean = new Array(one.rows * one.columns).fill(0);
  for (const map of one.maps) map.forEach((weight, i) => { mean[i] += weight / one.maps.length; });
  return mean;
}
function veil(canvas, one, map) {
  canvas.width = one.columns;
  canvas.height = one.rows;
  const pen = canvas.getContext("2d"), image = pen.createImageData(one.columns, one.rows), peak = Math.max(...map) || 1;
  map.forEach((weight, i) => {
    const share = weight / peak, warm = WARM * share, whole = DARK * (1 - share) + warm;
    HUE.forEach((part, k) => { image.data[4 * i + k] = Math.round(part * warm / whole); });
    image.data[4 * i + 3] = Math.round(255 * whole);
  });
  pen.putImageData(image, 0, 0);
}
function over(one, img, map, side) {
  const sheet = document.createElement("canvas"), small = document.createElement("canvas");
  sheet.width = sheet.height = side;
  const pen = sheet.getContext("2d");
  pen.drawImage(img, 0, 0, side, side);
  veil(small, one, map);
  pen.imageSmoothingEnabled = false;
  pen.drawImage(small, 0, 0, side, side);
  return sheet;
}
function save(name, type, content) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
function quoted(cell) { return `"${String(cell).replaceAll('"', '""')}"`; }

for (const section of document.querySelectorAll(".sight")) {
  const one = told[Number(section.dataset.number)], canvas = section.querySelector(".stage canvas");
  const img = section.querySelector("img"), slide = section.querySelector("input[type=range]");
  const out = section.querySelector("output"), words = [...section.querySelectorAll(".word")];
  const readout = section.querySelector(".readout"), mean = even(one);
  canvas.style.imageRendering = "pixelated";
  const map = () => (Number(slide.value) ? one.maps[Number(slide.value) - 1] : mean);
  function show() {
    const at = Number(slide.value) - 1, now = map(), peak = Math.max(...now, 0), where = now.indexOf(peak);
    if (now.length) veil(canvas, one, now);
    out.textContent = at < 0 ? "all" : one.words[at];
    words.forEach((word, i) => word.setAttribute("aria-pressed", String(i === at)));
    readout.textContent = now.length && one.maps.length
      ? `most at row ${Math.floor(where / one.columns) + 1}, column ${(where % one.columns) + 1}: ${peak.toFixed(3)}` : "";
    section.dataset.shown = String(at);
  }
  function go(word) { slide.value = String(word + 1); show(); }
  slide.addEventListener("input", show);
  words.forEach((word, i) => word.addEventListener("click", () => go(i)));
  const strip = section.querySelector(".strip");
  img.decode().catch(() => {}).then(() => {
    one.maps.forEach((each, i) => {
      const small = over(one, img, each, 96);
      small.dataset.tip = one.words[i];
      small.addEventListener("click", () => go(i));
      strip.append(small);
    });
  });
  const stem = one.name.replace(/^.*\//, "").replace(/\.\w+$/, "");
  section.querySelector("[data-save=png]").addEventListener("click", () => {
    over(one, img, map(), 512).toBlob((blob) => save(`${stem}-${out.textContent}.png`, "image/png", blob));
  });
  section.querySelector("[data-save=csv]").addEventListener("click", () => {
    const lines = one.maps.flatMap((each, i) => each.map(
      (weight, k) => [i, quoted(one.words[i]), Math.floor(k / one.columns), k % one.columns, weight].join(",")));
    save(`${stem}.csv`, "text/csv", ["number,word,row,column,weight", ...lines].join("\n") + "\n");
  });
  section.querySelector("[data-save=json]").addEventListener("click", () => {
    const { name, caption, words: said, rows, columns, maps } = one;
    save(`${stem}.json`, "application/json", JSON.stringify({ name, caption, words: said, rows, columns, maps }));
  });
  show();
}
