// All heads as small pictures, drawn when they come into view.
const LARGEST = 84;  // pixels; many heads share the width there is, at most 12 in a line
const proportion = (rows, columns) => Math.max(1 / 3, Math.min(5, columns / rows));
function buildGlance(choose) {
  for (const row of document.querySelectorAll("#glance .site")) {
    const site = Number(row.dataset.site);
    const { shape: [heads, rows, columns], site: name } = look.maps[site];
    const beside = Math.min(12, heads);
    row.querySelector(".thumbs").style.gridTemplateColumns = `repeat(${beside}, minmax(0, ${LARGEST}px))`;
    for (let head = 0; head < heads; head++) {
      const button = document.createElement("button");
      const canvas = document.createElement("canvas");
      canvas.style.aspectRatio = proportion(rows, columns);
      Object.assign(button, { type: "button", tabIndex: -1 });
      const called = look.maps[site].rollout ? `${name} up to layer ${head}` : `${name}, head ${head}`;
      const lost = (look.heads || []).find((h) => h.site === name && h.head === head && !look.maps[site].side);
      const told = lost ? `\nwithout it ${lost.change < 0 ? "−" : "+"}${number(Math.abs(lost.change))}` : "";
      Object.assign(button.dataset, { head, site, tip: called + told });
      button.setAttribute("aria-label", called);
      button.setAttribute("aria-pressed", "false");
      button.append(canvas);
      button.addEventListener("click", (event) => choose(site, head, event.ctrlKey || event.metaKey || event.shiftKey));
      row.querySelector(".thumbs").append(button);
    }
  }
  $("glance").addEventListener("keydown", (event) => {
    const at = event.target.closest("button[data-head]");
    const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!at || !move) return;
    event.preventDefault();
    const site = Math.max(0, Math.min(look.maps.length - 1, Number(at.dataset.site) + move[0]));
    const head = Math.max(0, Math.min(look.maps[site].shape[0] - 1, Number(at.dataset.head) + move[1]));
    choose(site, head);
    thumb(site, head).focus();
  });
}
const thumb = (site, head) => document.querySelector(`#glance button[data-site="${site}"][data-head="${head}"]`);

let line = Promise.resolve();  // one site after the other, so that the large picture never waits behind all of them
function watchGlance() {
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      seen.unobserve(entry.target);
      line = line.then(() => drawSite(entry.target)).catch((error) => console.error(error));
    }
  }, { rootMargin: "100px" });
  document.querySelectorAll("#glance .site").forEach((row) => seen.observe(row));
}

// Each pixel shows the largest weight among the cells it stands for: thin lines of attention survive shrinking.
async function drawSite(row) {
  const site = Number(row.dataset.site);
  const [, rows, columns] = look.maps[site].shape;
  const levels = await bytes(site);
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
  document.querySelectorAll('#glance .site[data-drawn="yes"]').forEach(drawSite);
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
