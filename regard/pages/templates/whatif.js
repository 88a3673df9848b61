// What if: the head that is shown silent, forced even or swapped, or a word hidden. A served page asks the model at once;
// a file tells the command that does.
const served = location.protocol.startsWith("http") && location.pathname.endsWith("/look") && location.search.length > 1;
let chosenWord = null;
function spec(kind) {
  const { site, mode, head, heads } = state, map = look.maps[site];
  const which = mode === "single" ? (map.shape[0] > 1 ? `:${head}` : "") : heads && heads.length < map.shape[0] ? `:${heads.join(",")}` : "";
  if (kind === "hide") return `hide:${chosenWord}`;
  if (kind !== "swap") return `${kind}:${map.site}${which}`;
  return `swap:${served ? new URLSearchParams(location.search).get("beside") : look.other.run}:${map.site}${which}`;
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
  const text = cells ? look.title : look.questions && look.axes.source ? look.text.split("\n").slice(0, -1).join("\n") : look.text;
  $("try-say").textContent = `regard look ${quoted(look.run || "RUN")} ${quoted(text)} --what-if ${quoted(change_)}`;
  getSelection().selectAllChildren($("try-say"));  // to be copied
}
function showWhatIf() {
  const box = $("try");
  if (!box) return;
  const map = look.maps[state.site], own = !map.rollout && !map.side;
  const named = state.mode === "single" && map.shape[0] > 1 ? "this head" : state.heads && state.mode !== "single" ? "these heads" : "all of it";
  box.querySelector('[data-try="ablate"]').textContent = `${named} silent`;
  box.querySelector('[data-try="uniform"]').textContent = `${named} forced even`;
  for (const kind of ["ablate", "uniform"]) box.querySelector(`[data-try="${kind}"]`).hidden = !own;
  const swapped = box.querySelector('[data-try="swap"]');
  swapped.hidden = !(own && look.other && twin(state.site) !== null && (served || look.other.run));
  const hide = box.querySelector('[data-try="hide"]');
  hide.disabled = !chosenWord;
  hide.textContent = chosenWord ? `hide “${shorten(chosenWord, 18)}”` : cells ? "hide a place: choose it in the picture" : "hide a word: choose it in the text";
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
