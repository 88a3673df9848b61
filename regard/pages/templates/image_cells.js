// Image models: weights of the grid cells over the image, and a cell that can be selected.
const imageAxis = look.image_axis ? look.axes[look.image_axis] : null;
const stages = [...document.querySelectorAll(".stage[data-side]")];
const cellName = (i) => `row ${Math.floor(i / imageAxis.grid[1]) + 1}, column ${(i % imageAxis.grid[1]) + 1}`;
const veiled = { weights: null, at: null, target: null };

function showCells(weights, target = null) {
  Object.assign(veiled, { weights, target });
  const [rows, columns] = imageAxis.grid;
  for (const stage of stages) {
    const canvas = stage.querySelector("canvas"), side = Number(stage.dataset.side);
    if (side === 2) difference(canvas, look.weights, look.other.weights);
    else veil(canvas, rows, columns, (side === 1 ? look.other.weights : weights) || []);
  }
  const peak = peakOf(weights);
  if ($("strongest")) $("strongest").textContent = `0 to ${peak.toPrecision(3)}, the most attended cell (${cellName(weights.indexOf(peak))})`;
  readVeil(veiled.at);
}
// Orange where the first run has more weight, blue where the second has.
function difference(canvas, first, second) {
  const [rows, columns] = imageAxis.grid;
  canvas.width = columns;
  canvas.height = rows;
  const change = Float64Array.from(first, (weight, i) => weight - second[i]), peak = peakOf(change) || 1;
  const image = new ImageData(columns, rows);
  change.forEach((d, i) => image.data.set([...(d > 0 ? [255, 150, 20] : [70, 150, 255]), Math.round((220 * Math.abs(d)) / peak)], 4 * i));
  canvas.getContext("2d").putImageData(image, 0, 0);
}
function readVeil(at) {
  veiled.at = at;
  const out = $("cell-readout");
  if (at === null) {
    out.textContent = "Point at a cell for its weight; select one to see what it attends to, below.";
    delete out.dataset.value;
    return;
  }
  out.textContent = `${cellName(at)}: ${number(veiled.weights[at])}${erased(at)}`;
  Object.assign(out.dataset, { cell: at, value: veiled.weights[at] });
}
// Score of the target without this cell.
function erased(at) {
  const { target } = veiled, after = (target || look).scores_without?.[at];
  if (typeof after !== "number") return "";
  const before = target ? target.log_p : look.score;
  return `; without it ${target ? `log p(${target.label})` : look.score_label} ${typeof before === "number" ? `${number(before)} → ` : ""}${number(after)}`;
}
function cellUnder(canvas, event) {
  const box = canvas.getBoundingClientRect(), [rows, columns] = imageAxis.grid;
  const c = Math.floor(((event.clientX - box.left) / box.width) * columns), r = Math.floor(((event.clientY - box.top) / box.height) * rows);
  return r >= 0 && c >= 0 && r < rows && c < columns ? r * columns + c : null;
}
// Layers in which the image attends to itself.
const looks = (layer) => Boolean(look.maps[layer]) && look.maps[layer].rows === look.image_axis && look.maps[layer].columns === look.image_axis;
function chooseCell(at) {
  if (at === null) return;
  chosenWord = look.tokens[at].text;
  if ($("try")) showWhatIf();
  const layer = looks(state.layer) ? state.layer : look.maps.findIndex((_, i) => looks(i));
  if (layer < 0) return;
  change({ layer, row: at, view: "image" });
  $("large").scrollIntoView({ block: "nearest", behavior: "smooth" });
}
function wireCells() {
  if (!imageAxis) return;
  for (const canvas of stages.filter((stage) => stage.dataset.side === "0").map((stage) => stage.querySelector("canvas"))) {
    canvas.addEventListener("pointermove", (event) => readVeil(cellUnder(canvas, event)));
    canvas.addEventListener("pointerleave", () => readVeil(null));
    canvas.addEventListener("click", (event) => chooseCell(cellUnder(canvas, event)));
    canvas.addEventListener("keydown", (event) => {
      const [rows, columns] = imageAxis.grid, at = veiled.at ?? 0;
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
    over(img, ...imageAxis.grid, veiled.weights, 512).toBlob((blob) => save(`${stem()}.png`, "image/png", blob), "image/png");
  });
  if (look.weights && !veiled.weights) showCells(look.weights);  // the URL may have selected others
}
