// An image with its caption: a slider through the words, each with its map and faithfulness.
const images = JSON.parse(document.getElementById("data").textContent);

function meanMap(one) {
  const mean = new Array(one.rows * one.columns).fill(0);
  for (const map of one.maps) map.forEach((weight, i) => { mean[i] += weight / one.maps.length; });
  return mean;
}
function save(name, type, content) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
function quoted(cell) { return `"${String(cell).replaceAll('"', '""')}"`; }

for (const section of document.querySelectorAll(".captioned")) {
  const one = images[Number(section.dataset.number)], canvas = section.querySelector(".stage canvas");
  const img = section.querySelector("img"), slide = section.querySelector("input[type=range]");
  const out = section.querySelector("output"), words = [...section.querySelectorAll(".word")];
  const readout = section.querySelector(".readout"), mean = meanMap(one);
  const map = () => (Number(slide.value) ? one.maps[Number(slide.value) - 1] : mean);
  function show() {
    const at = Number(slide.value) - 1, now = map(), peak = Math.max(...now, 0), where = now.indexOf(peak);
    if (now.length) veil(canvas, one.rows, one.columns, now);
    out.textContent = at < 0 ? "all" : one.words[at];
    words.forEach((word, i) => word.setAttribute("aria-pressed", String(i === at)));
    readout.textContent = now.length && one.maps.length
      ? `highest at row ${Math.floor(where / one.columns) + 1}, column ${(where % one.columns) + 1}: ${peak.toFixed(3)}` : "";
    showFaithfulness(at);
    section.dataset.shown = String(at);
  }
  function showFaithfulness(at) {
    const box = section.querySelector(".faithful"), found = one.faithfulness && (at < 0 ? one.faithfulness.all : one.faithfulness.words[at]);
    if (!box || !found) return;
    box.querySelector(".verdict").textContent = (at < 0 ? "" : `“${one.words[at]}”: `) + found.verdict;
    fillMetrics(box.querySelector("table"), found.metrics, true);
  }
  function go(word) { slide.value = String(word + 1); show(); }
  slide.addEventListener("input", show);
  words.forEach((word, i) => word.addEventListener("click", () => go(i)));
  const strip = section.querySelector(".strip");
  img.decode().catch(() => {}).then(() => {
    one.maps.forEach((each, i) => {
      const small = over(img, one.rows, one.columns, each, 96);
      small.dataset.tip = one.words[i];
      small.addEventListener("click", () => go(i));
      strip.append(small);
    });
  });
  const stem = one.name.replace(/^.*\//, "").replace(/\.\w+$/, "");
  section.querySelector("[data-save=png]").addEventListener("click", () => {
    over(img, one.rows, one.columns, map(), 512).toBlob((blob) => save(`${stem}-${out.textContent}.png`, "image/png", blob));
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
