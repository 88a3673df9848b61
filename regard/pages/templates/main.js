// State of the page, kept in its URL: #layer=...&head=...&mode=...&view=... and so on.
const START = { layer: Math.max(0, look.maps.findIndex((map) => !map.side && map.layer === look.default_layer)), head: 0, mode: "single", heads: null, zoom: 1, view: look.image_axis ? "image" : "map", unit: "tokens", special: true, norm: false,
  diff: false, row: null, word: null, by: "", spans: null };
const state = { ...START };
const layerName = (map) => (map.side ? `2:${map.layer}` : map.layer);

function readHash() {
  const asks = new URLSearchParams(location.hash.slice(1));
  const whole = (name, most) => {
    const value = Number(asks.get(name) ?? NaN);
    return Number.isInteger(value) && value >= 0 && value < most ? value : null;
  };
  const one = (name, known) => (known.includes(asks.get(name)) ? asks.get(name) : known[0]);
  Object.assign(state, START);
  state.word = whole("word", (look.targets || []).length);
  state.by = asks.get("by") in look.other_attributions ? asks.get("by") : "";
  if (!look.maps.length) return;
  const layer = look.maps.findIndex((map) => layerName(map) === asks.get("layer"));
  state.layer = layer >= 0 ? layer : START.layer;
  const [heads, rows] = look.maps[state.layer].shape;
  state.head = whole("head", heads) ?? 0;
  state.mode = one("mode", ["single", "mean", "max"]);
  state.zoom = [2, 4].includes(Number(asks.get("zoom"))) ? Number(asks.get("zoom")) : 1;
  state.view = one("view", gridOf(state.layer) ? [START.view, "map", "lines", "distance", "image"] : ["map", "lines", "distance"]);
  state.unit = one("unit", ["tokens", "words"]);
  state.special = asks.get("special") !== "0";
  state.norm = asks.get("norm") === "1";
  state.diff = asks.get("diff") === "1" && twin(state.layer) !== null;
  state.row = whole("row", rows) ?? (imageAxis && !looks(state.layer) ? state.word : null);
  state.spans = parseSpans(asks.get("spans"));
  const chosen = (asks.get("heads") || "").split(".").filter(Boolean).map(Number).filter((h) => Number.isInteger(h) && h >= 0 && h < heads);
  state.heads = chosen.length ? chosen : null;
}
function writeHash() {
  const { layer, head, mode, heads, zoom, view, unit, special, norm, diff, row, word, by, spans } = state;
  const hash = new URLSearchParams({ ...(look.maps.length && { layer: layerName(look.maps[layer]), head, mode }), ...(heads && { heads: heads.join(".") }),
    ...(zoom > 1 && { zoom }), ...(view !== START.view && { view }), ...(unit !== "tokens" && { unit }), ...(!special && { special: 0 }),
    ...(norm && { norm: 1 }), ...(diff && { diff: 1 }), ...(row !== null && { row }), ...(word !== null && { word }), ...(by && { by }),
    ...(spans && { spans: spans.map((span) => span.join("-")).join(".") }) });
  try { history.replaceState(null, "", `#${hash}`); } catch { /* a sandboxed frame has no URL */ }
}
function show() {
  if (look.targets && selectedTarget !== state.word) selectTarget(state.word);
  if ($("by") && (document.querySelector("#by input:checked").value !== state.by || shadedBy !== state.by)) {
    shadedBy = state.by;
    document.querySelector(`#by input[value="${CSS.escape(state.by)}"]`).checked = true;
    shadeBy(state.by);
  }
  if (!look.maps.length) return;
  const { layer, head, mode, heads, zoom } = state;
  const map = look.maps[layer];
  const chosenHeads = heads && heads.length < map.shape[0] ? `heads ${heads.join(", ")}` : `${map.shape[0]} heads`;
  $("large-title").textContent = `${map.side ? "second run · " : ""}${map.layer} · ` +
    (mode === "single" ? (map.rollout ? `up to layer ${head}` : `head ${head}`) : `${mode} of ${chosenHeads}`) +
    (state.diff ? " · first run minus second" : "");
  document.querySelector(`#mode input[value="${mode}"]`).checked = true;
  document.querySelector(`#zoom input[value="${zoom}"]`).checked = true;
  document.querySelector(`#view input[value="${state.view}"]`).checked = true;
  for (const [id, on] of [["words", state.unit === "words"], ["special", state.special], ["norm", state.norm], ["diff", state.diff]]) {
    if ($(id)) $(id).checked = on;
  }
  if ($("diff")) $("diff").disabled = twin(layer) === null;
  const pictured = document.querySelector('#view input[value="image"]');
  if (pictured) pictured.disabled = !gridOf(layer);
  for (const button of document.querySelectorAll("#glance button")) {
    const here = Number(button.dataset.layer) === layer;
    const number_ = Number(button.dataset.head);
    const chosen = here && number_ === head;
    button.setAttribute("aria-pressed", String(mode === "single" ? chosen : here && (!heads || heads.includes(number_))));
    button.tabIndex = chosen ? 0 : -1;
  }
  showSpans();
  showWhatIf();
  if (started) {
    sheet.done = showMap(state).catch((error) => { $("readout").hidden = false; $("readout").textContent = `Cannot read this map: ${error.message}`; });
  }
}
function change(what) {
  if (imageAxis && what.word != null && !looks(state.layer)) what.row = what.word;  // the rows are the words of the caption
  if ("layer" in what && what.layer !== state.layer) Object.assign(what, { row: null, heads: what.heads ?? null });
  Object.assign(state, what);
  if (look.maps.length && state.diff && twin(state.layer) === null) state.diff = false;
  if (look.maps.length && state.view === "image" && !gridOf(state.layer)) state.view = "map";
  if (look.maps.length) state.head = Math.min(state.head, look.maps[state.layer].shape[0] - 1);
  writeHash();
  show();
}
// A click selects one head; with Ctrl, Shift or ⌘ several, shown as their mean or maximum.
function choose(layer, head, more) {
  if (!(more || $("several").checked) || layer !== state.layer) return change({ layer, head, mode: "single", heads: null });
  const before = state.heads || (state.mode === "single" ? [state.head] : []);
  const heads = before.includes(head) ? before.filter((h) => h !== head) : [...before, head].sort((a, b) => a - b);
  if (heads.length <= 1) return change({ layer, head: heads[0] ?? head, mode: "single", heads: null });
  change({ layer, head, heads, mode: state.mode === "max" ? "max" : "mean" });
}
let shadedBy = "";
let started = false;  // maps are decoded when the heads scroll into view

if (look.maps.length) {
  buildGlance(choose);
  markFaithfulHeads();
  watchHeatmap();
  watchLines();
  watchSpans();
  watchWhatIf();
  if ($("image")) watchImage();
  readHash();
  show();
  watchGlance();
  new IntersectionObserver((entries, observer) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    observer.disconnect();
    started = true;
    show();
  }, { rootMargin: "100px" }).observe($("large"));
  $("mode").addEventListener("change", (event) => change({ mode: event.target.value, ...(event.target.value === "single" && { heads: null }) }));
  $("zoom").addEventListener("change", (event) => change({ zoom: Number(event.target.value) }));
  $("view").addEventListener("change", (event) => change({ view: event.target.value }));
  $("words").addEventListener("change", (event) => change({ unit: event.target.checked ? "words" : "tokens", row: null }));
  $("special")?.addEventListener("change", (event) => change({ special: event.target.checked, row: null }));
  $("norm").addEventListener("change", (event) => change({ norm: event.target.checked }));
  $("diff")?.addEventListener("change", (event) => change({ diff: event.target.checked }));
  // Keyboard shortcuts.
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, textarea, select")) return;
    const key = event.key.toLowerCase();
    if (key === "m" || key === "l" || key === "d") change({ view: { m: "map", l: "lines", d: "distance" }[key] });
    else if (key === "p" && gridOf(state.layer)) change({ view: "image" });
    else if (key === "w") change({ unit: state.unit === "words" ? "tokens" : "words", row: null });
    else if (key === "s" && $("special")) change({ special: !state.special, row: null });
    else if (key === "j" && $("join")) join();
    else if (key === "n") change({ norm: !state.norm });
    else if (key === "x" && $("diff") && twin(state.layer) !== null) change({ diff: !state.diff });
  });
  const redraw = () => { redrawGlance(); show(); };
  darkScreen.addEventListener("change", redraw);
  addEventListener("beforeprint", () => { printing = true; redraw(); });
  addEventListener("afterprint", () => { printing = false; redraw(); });
  let pause, width = $("large").clientWidth;
  addEventListener("resize", () => {
    clearTimeout(pause);
    pause = setTimeout(() => {
      if ($("large").clientWidth !== width && started) show();
      width = $("large").clientWidth;
    }, 120);
  });
} else if (look.targets || $("by")) {
  readHash();
  show();
}
addEventListener("hashchange", () => { readHash(); show(); });
wireTargets();
wireCells();
const strongest = $("strongest")?.textContent;
$("shade")?.addEventListener("change", (event) => {
  const bySentence = event.target.value === "sentence";
  document.querySelector("#text .prose").classList.toggle("by-sentence", bySentence);
  $("strongest").textContent = bySentence ? "0 to the most attended word of each sentence" : strongest;
});
wireExports();
