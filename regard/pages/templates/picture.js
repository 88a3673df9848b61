// Where the model reads a picture, its places stand for words: a veil of weights, and a place that can be chosen.
const cells = look.cells ? look.axes[look.cells] : null;
const stages = [...document.querySelectorAll(".stage[data-side]")];
const placeName = (i) => `row ${Math.floor(i / cells.grid[1]) + 1}, column ${(i % cells.grid[1]) + 1}`;
const veiled = { weights: null, at: null, question: null };

function showCells(weights, question = null) {
  Object.assign(veiled, { weights, question });
  const [rows, columns] = cells.grid;
  for (const stage of stages) {
    const canvas = stage.querySelector("canvas"), side = Number(stage.dataset.side);
    if (side === 2) difference(canvas, look.weights, look.other.weights);
    else veil(canvas, rows, columns, (side === 1 ? look.other.weights : weights) || []);
  }
  const peak = peakOf(weights);
  if ($("strongest")) $("strongest").textContent = `0 to ${peak.toPrecision(3)}, the strongest place (${placeName(weights.indexOf(peak))})`;
  readVeil(veiled.at);
}
// Orange where the first run gives more, blue where the second does.
function difference(canvas, first, second) {
  const [rows, columns] = cells.grid;
  canvas.width = columns;
  canvas.height = rows;
  const change = Float64Array.from(first, (weight, i) => weight - second[i]), peak = peakOf(change) || 1;
  const image = new ImageData(columns, rows);
  change.forEach((d, i) => image.data.set([...(d > 0 ? [255, 150, 20] : [70, 150, 255]), Math.round((220 * Math.abs(d)) / peak)], 4 * i));
  canvas.getContext("2d").putImageData(image, 0, 0);
}
function readVeil(at) {
  veiled.at = at;
  const out = $("place");
  if (at === null) {
    out.textContent = "Point at a place for its weight; choose one to see where it looks, below.";
    delete out.dataset.value;
    return;
  }
  out.textContent = `${placeName(at)}: ${number(veiled.weights[at])}${erased(at)}`;
  Object.assign(out.dataset, { cell: at, value: veiled.weights[at] });
}
// What is asked about, if this place were erased.
function erased(at) {
  const { question } = veiled, after = (question || look).without?.[at];
  if (typeof after !== "number") return "";
  const before = question ? question.log_p : look.answer;
  return `; without it ${question ? `log p(${question.label})` : look.asked} ${typeof before === "number" ? `${number(before)} → ` : ""}${number(after)}`;
}
function placeUnder(canvas, event) {
  const box = canvas.getBoundingClientRect(), [rows, columns] = cells.grid;
  const c = Math.floor(((event.clientX - box.left) / box.width) * columns), r = Math.floor(((event.clientY - box.top) / box.height) * rows);
  return r >= 0 && c >= 0 && r < rows && c < columns ? r * columns + c : null;
}
// The places that look are those of a layer in which the picture regards itself.
const looks = (site) => Boolean(look.maps[site]) && look.maps[site].rows === look.cells && look.maps[site].columns === look.cells;
function chooseCell(at) {
  if (at === null) return;
  chosenWord = look.tokens[at].text;
  if ($("try")) showWhatIf();
  const site = looks(state.site) ? state.site : look.maps.findIndex((_, i) => looks(i));
  if (site < 0) return;
  change({ site, row: at, view: "image" });
  $("large").scrollIntoView({ block: "nearest", behavior: "smooth" });
}
function wireCells() {
  if (!cells) return;
  for (const canvas of stages.filter((stage) => stage.dataset.side === "0").map((stage) => stage.querySelector("canvas"))) {
    canvas.addEventListener("pointermove", (event) => readVeil(placeUnder(canvas, event)));
    canvas.addEventListener("pointerleave", () => readVeil(null));
    canvas.addEventListener("click", (event) => chooseCell(placeUnder(canvas, event)));
    canvas.addEventListener("keydown", (event) => {
      const [rows, columns] = cells.grid, at = veiled.at ?? 0;
      const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
      if (event.key === "Enter") chooseCell(veiled.at);
      if (!move) return;
      event.preventDefault();
      const inside = (value, size) => Math.max(0, Math.min(size - 1, value));
      readVeil(veiled.at === null ? 0 : inside(Math.floor(at / columns) + move[0], rows) * columns + inside((at % columns) + move[1], columns));
    });
  }
  $("save-over").addEventListener("click", () => {
    const img = document.querySelector("#text .stage img");
    over(img, ...cells.grid, veiled.weights, 512).toBlob((blob) => save(`${stem()}.png`, "image/png", blob), "image/png");
  });
  if (look.weights && !veiled.weights) showCells(look.weights);  // the address may have asked for others
}
