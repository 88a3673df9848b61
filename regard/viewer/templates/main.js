// The state of the page, kept in its address: #site=...&head=...&mode=...&zoom=...
const state = { site: 0, head: 0, mode: "single", zoom: 1 };

function readHash() {
  const asked = new URLSearchParams(location.hash.slice(1));
  const site = look.maps.findIndex((map) => map.site === asked.get("site"));
  state.site = site < 0 ? 0 : site;
  const head = Number(asked.get("head") || 0);
  state.head = Number.isInteger(head) && head >= 0 && head < look.maps[state.site].shape[0] ? head : 0;
  state.mode = ["mean", "max"].includes(asked.get("mode")) ? asked.get("mode") : "single";
  state.zoom = [2, 4].includes(Number(asked.get("zoom"))) ? Number(asked.get("zoom")) : 1;
}
function writeHash() {
  const { site, head, mode, zoom } = state;
  const hash = new URLSearchParams({ site: look.maps[site].site, head, mode, ...(zoom > 1 && { zoom }) });
  try { history.replaceState(null, "", `#${hash}`); } catch { /* a frame without an address of its own */ }
}
function show() {
  const { site, head, mode, zoom } = state;
  const map = look.maps[site];
  $("large-title").textContent = `${map.site} · ` + (mode === "single" ? `head ${head}` : `${mode} of ${map.shape[0]} heads`);
  document.querySelector(`#mode input[value="${mode}"]`).checked = true;
  document.querySelector(`#zoom input[value="${zoom}"]`).checked = true;
  for (const button of document.querySelectorAll("#glance button")) {
    const here = Number(button.dataset.site) === site;
    const chosen = here && Number(button.dataset.head) === head;
    button.setAttribute("aria-pressed", String(mode === "single" ? chosen : here));
    button.tabIndex = chosen ? 0 : -1;
  }
  if (started) showMap(state).catch((error) => { $("readout").textContent = `This map cannot be read: ${error.message}`; });
}
function change(what) {
  Object.assign(state, what);
  writeHash();
  show();
}
let started = false;  // nothing is unpacked before the heads come into view

if (look.maps.length) {
  buildGlance((site, head) => change({ site, head, mode: "single" }));
  watchHeatmap();
  readHash();
  show();
  watchGlance();
  new IntersectionObserver((entries, observer) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    observer.disconnect();
    started = true;
    show();
  }, { rootMargin: "100px" }).observe($("frame"));
  $("mode").addEventListener("change", (event) => change({ mode: event.target.value }));
  $("zoom").addEventListener("change", (event) => change({ zoom: Number(event.target.value) }));
  addEventListener("hashchange", () => { readHash(); show(); });
  const redraw = () => { redrawGlance(); show(); };
  darkScreen.addEventListener("change", redraw);
  addEventListener("beforeprint", () => { printing = true; redraw(); });
  addEventListener("afterprint", () => { printing = false; redraw(); });
  let pause, width = $("frame").clientWidth;
  addEventListener("resize", () => {
    clearTimeout(pause);
    pause = setTimeout(() => {
      if ($("frame").clientWidth !== width && started) show();
      width = $("frame").clientWidth;
    }, 120);
  });
}
const strongest = $("strongest")?.textContent;
$("shade")?.addEventListener("change", (event) => {
  const bySentence = event.target.value === "sentence";
  document.querySelector("#text .prose").classList.toggle("by-sentence", bySentence);
  $("strongest").textContent = bySentence ? "0 to the strongest word of each sentence" : strongest;
});
wireExports();
