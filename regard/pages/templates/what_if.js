// What if: ablate the shown head, make it uniform or swap it, or hide a word. A served page runs the model; a file shows
// the command.
const served = location.protocol.startsWith("http") && location.pathname.endsWith("/look") && location.search.length > 1;
let chosenWord = null;
function spec(kind) {
  const { layer, mode, head, heads } = state, map = look.maps[layer];
  const which = mode === "single" ? (map.shape[0] > 1 ? `:${head}` : "") : heads && heads.length < map.shape[0] ? `:${heads.join(",")}` : "";
  if (kind === "hide") return `hide:${chosenWord}`;
  if (kind !== "swap") return `${kind}:${map.layer}${which}`;
  return `swap:${served ? new URLSearchParams(location.search).get("beside") : look.other.run}:${map.layer}${which}`;
}
const quoted = (text) => (/^[\w./:#,*-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
function tryOut(kind) {
  const change_ = spec(kind);
  if (served) {
    const asks = new URLSearchParams(location.search);
    asks.set("what_if", [...asks.getAll("what_if").flatMap((text) => text.split(/\s+/).filter(Boolean)), change_].join(" "));
    const framed = parent !== window;
    (framed ? parent : window).location.assign(`${framed ? location.pathname.replace(/look$/, "") : location.pathname}?${asks}`);
    return;
  }
  const text = imageAxis ? look.title : look.targets && look.axes.source ? look.text.split("\n").slice(0, -1).join("\n") : look.text;
  $("try-say").textContent = `regard look ${quoted(look.run || "RUN")} ${quoted(text)} --what-if ${quoted(change_)}`;
  getSelection().selectAllChildren($("try-say"));  // ready to copy
}
function showWhatIf() {
  const box = $("try");
  if (!box) return;
  const map = look.maps[state.layer], own = !map.rollout && !map.side;
  const selection = state.mode === "single" && map.shape[0] > 1 ? "this head" : state.heads && state.mode !== "single" ? "these heads" : "all heads";
  box.querySelector('[data-try="ablate"]').textContent = `ablate ${selection}`;
  box.querySelector('[data-try="uniform"]').textContent = `make ${selection} uniform`;
  for (const kind of ["ablate", "uniform"]) box.querySelector(`[data-try="${kind}"]`).hidden = !own;
  const swapped = box.querySelector('[data-try="swap"]');
  swapped.hidden = !(own && look.other && twin(state.layer) !== null && (served || look.other.run));
  const hide = box.querySelector('[data-try="hide"]');
  hide.disabled = !chosenWord;
  hide.textContent = chosenWord ? `hide “${shorten(chosenWord, 18)}”` : imageAxis ? "hide a cell: select it in the image" : "hide a word: select it in the text";
  $("try-say").textContent = "";
}
function watchWhatIf() {
  $("try")?.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-try]");
    if (button) tryOut(button.dataset.try);
  });
  const choose_ = (target) => {
    const word = target.closest?.("#text .prose .word[data-tokens]");
    if (!word || !$("try")) return;
    chosenWord = word.textContent.trim();
    showWhatIf();
  };
  document.addEventListener("click", (event) => choose_(event.target));
  document.addEventListener("focusin", (event) => choose_(event.target));
}
