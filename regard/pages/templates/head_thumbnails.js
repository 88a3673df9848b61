// Thumbnails of all heads, drawn when they scroll into view.
const LARGEST = 84;  // pixels; at most 12 in a row
const proportion = (rows, columns) => Math.max(1 / 3, Math.min(5, columns / rows));
function buildGlance(choose) {
  for (const row of document.querySelectorAll("#glance .layer")) {
    const layer = Number(row.dataset.layer);
    const { shape: [heads, rows, columns], layer: name } = look.maps[layer];
    const beside = Math.min(12, heads);
    row.querySelector(".thumbs").style.gridTemplateColumns = `repeat(${beside}, minmax(0, ${LARGEST}px))`;
    for (let head = 0; head < heads; head++) {
      const button = document.createElement("button");
      const canvas = document.createElement("canvas");
      canvas.style.aspectRatio = proportion(rows, columns);
      Object.assign(button, { type: "button", tabIndex: -1 });
      const label = look.maps[layer].rollout ? `${name} up to layer ${head}` : `${name}, head ${head}`;
      const lost = (look.heads || []).find((h) => h.layer === name && h.head === head && !look.maps[layer].side);
      const effect = lost ? `\nwithout it ${lost.change < 0 ? "−" : "+"}${number(Math.abs(lost.change))}` : "";
      Object.assign(button.dataset, { head, layer, tip: label + effect });
      button.setAttribute("aria-label", label);
      button.setAttribute("aria-pressed", "false");
      button.append(canvas);
      button.addEventListener("click", (event) => choose(layer, head, event.ctrlKey || event.metaKey || event.shiftKey));
      row.querySelector(".thumbs").append(button);
    }
  }
  $("glance").addEventListener("keydown", (event) => {
    const at = event.target.closest("button[data-head]");
    const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!at || !move) return;
    event.preventDefault();
    const layer = Math.max(0, Math.min(look.maps.length - 1, Number(at.dataset.layer) + move[0]));
    const head = Math.max(0, Math.min(look.maps[layer].shape[0] - 1, Number(at.dataset.head) + move[1]));
    choose(layer, head);
    thumb(layer, head).focus();
  });
}
const thumb = (layer, head) => document.querySelector(`#glance button[data-layer="${layer}"][data-head="${head}"]`);

let line = Promise.resolve();  // one layer at a time, so that the large map never waits for all of them
function watchGlance() {
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      seen.unobserve(entry.target);
      line = line.then(() => drawLayer(entry.target)).catch((error) => console.error(error));
    }
  }, { rootMargin: "100px" });
  document.querySelectorAll("#glance .layer").forEach((row) => seen.observe(row));
}

// Each pixel shows the largest weight of its cells, so that thin lines stay visible.
async function drawLayer(row) {
  const layer = Number(row.dataset.layer);
  const [, rows, columns] = look.maps[layer].shape;
  const levels = await bytes(layer);
  const table = ramp();
  for (const button of row.querySelectorAll("button")) {
    const offset = Number(button.dataset.head) * rows * columns;
    const canvas = button.firstChild;
    const box = canvas.getBoundingClientRect();
    const width = Math.min(columns, Math.ceil(box.width * Math.min(2, devicePixelRatio)) || LARGEST);
    const height = Math.min(rows, Math.ceil(box.height * Math.min(2, devicePixelRatio)) || LARGEST);
    const largest = new Uint8Array(width * height);
    let peak = 1;
    for (let r = 0, i = offset; r < rows; r++) {
      const first = Math.floor((r * height) / rows) * width;
      for (let c = 0; c < columns; c++, i++) {
        const at = first + Math.floor((c * width) / columns);
        if (levels[i] > largest[at]) largest[at] = levels[i];
        if (levels[i] > peak) peak = levels[i];
      }
    }
    canvas.width = width;
    canvas.height = height;
    const context = canvas.getContext("2d");
    context.putImageData(paint(largest, width, height, peak, table), 0, 0);
  }
  row.dataset.drawn = "yes";
}
function redrawGlance() {
  document.querySelectorAll('#glance .layer[data-drawn="yes"]').forEach(drawLayer);
}
function paint(values, width, height, peak, table, signed = false) {
  const image = new ImageData(width, height);
  for (let i = 0; i < values.length; i++) {
    const level = 3 * (signed ? Math.round(127.5 + (127.5 * values[i]) / (peak || 1)) : peak > 0 ? Math.round((255 * values[i]) / peak) : 0);
    image.data[4 * i] = table[level];
    image.data[4 * i + 1] = table[level + 1];
    image.data[4 * i + 2] = table[level + 2];
    image.data[4 * i + 3] = 255;
  }
  return image;
}
